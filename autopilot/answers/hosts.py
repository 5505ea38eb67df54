"""What is remembered of machines."""

from __future__ import annotations

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant


@record(frozen=True, kw_only=True)
class HostLoad(Described):
    image: str
    seconds: float


@record(frozen=True, kw_only=True)
class Host(Described):
    provider: str
    machine_id: str
    """Where its market has pools: a kind of machine."""
    host_id: str
    gpu: str
    seen_at: Instant
    """When something was last seen of it."""
    launches: float
    """Faded: what was seen counts half after two days."""
    failed: float
    """Of them those that came to nothing, and machines that failed later."""
    last_fault: str | None
    last_fault_at: Instant | None
    pace: float | None
    """0..1, beside the best of the same job on such GPUs; null: not known, or not slow."""
    loads: list[HostLoad]
    """The last loading time of each image."""
    blocked_at: Instant | None


@record(frozen=True, kw_only=True)
class Hosts(Described):
    hosts: list[Host]


@record(frozen=True, kw_only=True)
class HostAnswer(Described):
    host: Host
