"""Spend, budgets, bills and prices."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from autopilot.answers.models.base import Answer, Costs, Instant, Money, Number, Query, Seconds
from autopilot.answers.models.jobs import Bid, Event, PaidLease
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


class SpendRow(Costs):
    key: str
    name: str | None
    """The job's or the owner's, where lines are such."""
    posted: Money
    accrued: Money
    held: Money
    instances: int
    running_s: Seconds
    on_demand: Money | None
    """What the running hours would have cost on demand."""
    saved: Money | None


class Comparison(Answer):
    name: str
    cost: Money
    spent: Money
    saved: Money
    saved_share: Number | None
    sources: list[str]


class Spend(Answer):
    by: str
    since: date | None
    until: date | None
    zone: str
    rows: list[SpendRow]
    total_row: SpendRow
    comparisons: list[Comparison]
    currency: str


class Against(Answer):
    """A limit, and what counts against it."""

    limit: Money | None
    posted: Money
    accrued: Money
    held: Money
    left: Money | None
    runway_s: Seconds | None
    """So long what is left lasts; null: the limit is not reached."""


class AccountLaunches(Answer):
    rented: int
    limit: int
    kept_back: int
    refused: int
    refused_limit: int


class JobLaunches(Answer):
    rented: int
    limit: int
    refused: int
    refused_limit: int


class MarketMoney(Answer):
    name: str
    credit: Money | None
    burn: Money
    runway_s: Seconds | None


class AccountMoney(Answer):
    day: Against
    month: Against
    held_for: dict[str, Money]
    max_hourly: Money | None
    max_instances: int
    instances: int
    burn: Money
    burn_at_most: Money
    runway_s: Seconds | None
    month_ends_at: Instant
    forecast_month: Money
    forecast_reaches_limit: bool
    markets: list[MarketMoney]
    launches: AccountLaunches


class JobMoney(Against):
    id: str
    name: str
    status: str
    held_for: dict[str, Money]
    max_rate: Money | None
    burn: Money
    forecast: Money | None
    launches: JobLaunches


class TokenMoney(Against):
    """Of its jobs, and of those of all that it has made."""

    name: str
    number: int
    is_monthly: bool
    made_by: str | None = None
    """Its maker, in whose allowance it counts too. Null: of a user, or nobody noted it."""


class ScheduleMoney(Against):
    """Of all firings together."""

    id: str
    name: str
    is_monthly: bool


class Budget(Answer):
    now: Instant
    currency: str
    account: AccountMoney | None
    """Null for a token that may not see it."""
    jobs: list[JobMoney]
    tokens: list[TokenMoney]
    """Those with an allowance."""
    schedules: tuple[ScheduleMoney, ...] = ()
    """Those that go on and have a budget over all firings. A daemon of an older version does not tell."""


class Amounts(Answer):
    estimate: Money
    corrected: Money
    posted: Money
    invoiced: Money | None
    not_billed: Money
    accrued: Money
    held: Money


class ReconciledLease(Amounts):
    provider: str
    instance_id: str
    lease_id: str
    job_id: str | None
    gpu: str
    waits_for: str | None
    second_look_at: Instant | None


class Reconciliation(Answer):
    month: str
    rows: list[ReconciledLease]
    total: Amounts
    not_invoiced: int
    currency: str


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
    """An instant, or how long ago; ``7d``."""
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
