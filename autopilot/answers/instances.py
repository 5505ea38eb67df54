"""The lives of machines, from the first second to the bill."""

from __future__ import annotations

from datetime import date

from autopilot.answers.jobs import Bid, Event, PaidLease
from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Number, Seconds


@record(frozen=True, kw_only=True)
class Span(Described):
    status: str
    billed_rate: Money
    storage_rate: Money
    started_at: Instant
    ended_at: Instant | None


@record(frozen=True, kw_only=True)
class Entry(Described):
    id: str
    type: str
    kind: str
    day: date
    amount: Money
    posted_at: Instant
    corrects: str | None
    line_id: str | None


@record(frozen=True, kw_only=True)
class InvoiceLine(Described):
    id: str
    kind: str
    day: date
    amount: Money
    revision: int
    seen_at: Instant


@record(frozen=True, kw_only=True)
class Reading(Described):
    at: Instant
    gpu_busy: float | None
    gpu_memory_share: float | None
    disk_free: int | None
    load: float | None
    progress: float | None


@record(frozen=True, kw_only=True)
class InstanceLease(PaidLease):
    job_id: str | None
    job: str | None
    host_id: str
    disk_gb: Number
    decision_id: str | None
    acquired_at: Instant | None
    not_after: Instant
    destroy_requested_at: Instant | None
    destroy_sent_at: Instant | None
    running_s: Seconds
    waits_for: str | None


@record(frozen=True, kw_only=True)
class InstanceLife(Described):
    lease: InstanceLease
    spans: list[Span]
    bids: list[Bid]
    entries: list[Entry]
    invoice_lines: list[InvoiceLine]
    events: list[Event]
    readings: list[Reading]
    """The newest 288, oldest first."""


@record(frozen=True, kw_only=True)
class Instances(Described):
    instances: list[InstanceLife]
    """Newest first."""
