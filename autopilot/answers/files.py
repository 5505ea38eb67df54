"""Copies of users' code, and the outputs of jobs."""

from __future__ import annotations

from autopilot.answers.jobs import TakenCode
from autopilot.answers.record import record
from autopilot.answers.scalars import Described


@record(frozen=True, kw_only=True)
class CodeThere(Described):
    there: bool
    missing: list[int] | None
    """Numbers of the parts still to be sent; null: the index is still to be sent."""


@record(frozen=True, kw_only=True)
class CodeBegun(Described):
    missing: list[int]


@record(frozen=True, kw_only=True)
class Nothing(Described):
    """An empty object."""


@record(frozen=True, kw_only=True)
class CodeOfJob(Described):
    name: str
    code: TakenCode
    urls: list[str]
    """URLs of the index and of each part."""


@record(frozen=True, kw_only=True)
class OutputPart(Described):
    key: str
    size: int
    sha256: str
    url: str


@record(frozen=True, kw_only=True)
class Outputs(Described):
    name: str
    parts: list[OutputPart]
