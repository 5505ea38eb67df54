"""What runs beside a job on its machine."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described


@record(frozen=True, kw_only=True)
class ExecAnswer(Described):
    exit_code: int
    output: str
    is_cut: bool
    ended: str
    """``exited``, ``timed_out`` (124) or ``stopped`` (137)."""


@record(frozen=True, kw_only=True)
class SshAnswer(Described):
    host: str
    port: int
    user: str
    lease: str
