"""What is asked about money; machines and prices."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from autopilot.answers.models.base import Answer, Query
from autopilot.answers.models.jobs import Bid, Event, PaidLease
from autopilot.answers.scalars import Instant, Money, Number, Seconds
from autopilot.domain.spend import SpendKey


class MonthQuery(Query):
    month: str | None = None
    """``2026-11``; the present one."""


class SpendQuery(Query):
    by: SpendKey | Annotated[str, Field(pattern=r"^tag:[A-Za-z0-9_-]{1,40}$")] = "month"
    """A key, or ``tag:project``: a tag of the job files."""
    month: str | None = None
    since: str | None = None
    """The first day, ``2026-11-30``."""
    until: str | None = None
    """The last day."""
    zone: str = "UTC"


class Span(Answer):
    status: str
    billed_rate: Money
    storage_rate: Money
    started_at: Instant
    ended_at: Instant | None


class Entry(Answer):
    id: str
    type: str
    kind: str
    day: date
    amount: Money
    posted_at: Instant
    corrects: str | None
    line_id: str | None


class InvoiceLine(Answer):
    id: str
    kind: str
    day: date
    amount: Money
    revision: int
    seen_at: Instant


class Reading(Answer):
    at: Instant
    gpu_busy: float | None
    gpu_memory_share: float | None
    disk_free: int | None
    load: float | None
    progress: float | None


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


class InstanceLife(Answer):
    lease: InstanceLease
    spans: list[Span]
    bids: list[Bid]
    entries: list[Entry]
    invoice_lines: list[InvoiceLine]
    events: list[Event]
    readings: list[Reading]
    """The newest 288, oldest first."""


class Instances(Answer):
    instances: list[InstanceLife]
    """Newest first."""


class PricesQuery(Query):
    gpu: str = ""
    since: str | None = None
    """An instant, or an age like ``7d``."""
    until: str | None = None
    provider: str | None = None
    steps: int = Field(default=60, ge=1, le=1000)


class PriceStep(Answer):
    at: Instant
    low: Money | None
    mean: Money | None
    high: Money | None
    on_demand: Money | None
    machines: int


class MarketPrices(Answer):
    provider: str
    gpu: str
    observations: int
    machines: int
    low: Money | None
    mean: Money | None
    high: Money | None
    on_demand: Money | None
    last_low: Money | None
    last_seen_at: Instant
    steps: list[PriceStep]


class Prices(Answer):
    gpu: str
    since: Instant
    until: Instant
    step_s: Seconds
    unit: str
    markets: list[MarketPrices]
    """One for each market and model."""
