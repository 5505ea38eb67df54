"""Spend, budgets, bills and receipts, as everybody has them: the books make them, the API serves them, and the command
line, the page and the Python client read them. Their members stand in the order in which they are served."""

from __future__ import annotations

from datetime import date

from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Number, Seconds
from autopilot.domain.cost_columns import Costs
from autopilot.domain.job import JobStatus


@record(frozen=True, kw_only=True)
class _Line(Described):
    key: str
    name: str | None
    """The job's or the owner's, if lines are jobs or owners."""


@record(frozen=True, kw_only=True)
class SpendRow(Costs, _Line):
    posted: Money
    accrued: Money
    held: Money
    instances: int
    running_s: Seconds
    on_demand: Money | None
    """On-demand cost of the running hours."""
    saved: Money | None


@record(frozen=True, kw_only=True)
class Comparison(Described):
    name: str
    cost: Money
    spent: Money
    saved: Money
    saved_share: Number | None
    sources: list[str]


@record(frozen=True, kw_only=True)
class Spend(Described):
    by: str
    since: date | None
    until: date | None
    zone: str
    total_row: SpendRow
    comparisons: list[Comparison]
    currency: str
    rows: list[SpendRow]


@record(frozen=True, kw_only=True)
class SpendOfMonth(Spend):
    """The dearest rows, dearest first, and the sum of the others."""

    others: SpendRow | None
    """None: all are shown."""
    others_count: int


@record(frozen=True, kw_only=True)
class Counted(Described):
    """What limits count of a job or a machine."""

    posted: Money
    """In the ledger."""
    accrued: Money
    """Since the last posting, by our own clock."""
    held: Money
    """What limits count in addition to the two."""


@record(frozen=True, kw_only=True)
class Against(Described):
    """A limit, and what counts against it."""

    limit: Money | None
    posted: Money
    accrued: Money
    held: Money
    left: Money | None
    runway_s: Seconds | None
    """How long the rest lasts at this rate; null: the limit is not reached."""


@record(frozen=True, kw_only=True)
class AccountLaunches(Described):
    rented: int
    limit: int
    kept_back: int
    refused: int
    refused_limit: int


@record(frozen=True, kw_only=True)
class JobLaunches(Described):
    rented: int
    limit: int
    refused: int
    refused_limit: int


@record(frozen=True, kw_only=True)
class MarketMoney(Described):
    name: str
    credit: Money | None
    burn: Money
    runway_s: Seconds | None


@record(frozen=True, kw_only=True)
class AccountMoney(Described):
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


@record(frozen=True, kw_only=True)
class _Job(Described):
    id: str
    name: str
    status: str


@record(frozen=True, kw_only=True)
class JobMoney(Against, _Job):
    held_for: dict[str, Money]
    max_rate: Money | None
    burn: Money
    forecast: Money | None
    launches: JobLaunches


@record(frozen=True, kw_only=True)
class _Token(Described):
    name: str
    number: int
    is_monthly: bool
    made_by: str | None = None
    """Its maker, whose allowance it also counts against. Null: a user, or unknown."""


@record(frozen=True, kw_only=True)
class TokenMoney(Against, _Token):
    """Amounts of its jobs, and of the jobs of all tokens that it has made."""


@record(frozen=True, kw_only=True)
class _Schedule(Described):
    id: str
    name: str
    is_monthly: bool


@record(frozen=True, kw_only=True)
class ScheduleMoney(Against, _Schedule):
    """Amounts of all firings together."""


@record(frozen=True, kw_only=True)
class Budget(Described):
    now: Instant
    currency: str
    account: AccountMoney | None
    """Null for a token without the right to see it."""
    jobs: list[JobMoney]
    tokens: list[TokenMoney]
    """Tokens with an allowance."""
    schedules: tuple[ScheduleMoney, ...] = ()
    """Open schedules with a budget over all firings. Missing from an older daemon."""


@record(frozen=True, kw_only=True)
class Amounts(Described):
    estimate: Money
    corrected: Money
    posted: Money
    invoiced: Money | None
    not_billed: Money
    accrued: Money
    held: Money


@record(frozen=True, kw_only=True)
class _Machine(Described):
    provider: str
    instance_id: str
    lease_id: str
    job_id: str | None
    gpu: str
    waits_for: str | None
    second_look_at: Instant | None


@record(frozen=True, kw_only=True)
class ReconciledLease(Amounts, _Machine):
    pass


@record(frozen=True, kw_only=True)
class Reconciliation(Described):
    month: str
    total: Amounts
    not_invoiced: int
    currency: str
    rows: list[ReconciledLease]


@record(frozen=True, kw_only=True)
class ReconciliationOfDearest(Reconciliation):
    """The dearest rows, dearest first, and the sum of the others."""

    others: Amounts | None
    """None: all are shown."""
    others_count: int


@record(frozen=True, kw_only=True)
class MonthOfMoney(Described):
    """What the page about a month of money shows."""

    spend: SpendOfMonth
    days: dict[str, dict[date, Money]]
    """By market and UTC day: what was posted or has accrued."""
    account: AccountMoney
    bills: ReconciliationOfDearest


@record(frozen=True, kw_only=True)
class _Posted(Described):
    posted: Money


@record(frozen=True, kw_only=True)
class JobSpend(Costs, _Posted):
    on_demand_equivalent: Money | None


@record(frozen=True, kw_only=True)
class Receipt(Costs, _Posted):
    """The cost of a job, with or without confirmation by its markets' bills."""

    bill: str
    """For all its machines: ``complete``; ``awaited``; ``unconfirmed``, if a market billed nothing for one; ``none``,
    if none cost anything."""
    on_demand: Money | None
    """On-demand cost of the same hours at that time; null: no price is known."""
    saved: Money | None
    is_shared: bool
    """Other tasks used its machines too: amounts are the job's share, bills those of whole machines."""
    interruptions: int | None
    """How often its machine stopped without a request of the daemon; null: an array, or its events are deleted."""
    work_lost_s: Seconds | None
    """Work that was repeated because no verified checkpoint had it."""


@record(frozen=True, kw_only=True)
class ReceiptMachine(Described):
    lease_id: str
    provider: str
    instance_id: str | None
    gpu: str
    num_gpus: int
    capacity_type: str
    running_s: Seconds
    posted: Money
    invoiced: Money | None
    waits_for: str | None
    """What its bill is missing; null: it is complete."""


@record(frozen=True, kw_only=True)
class ReceiptLine(Described):
    """The sum of the ledger's entries of one machine, UTC day and kind of cost."""

    lease_id: str
    provider: str
    instance_id: str | None
    day: date | None
    kind: str
    amount: Money


@record(frozen=True, kw_only=True)
class ReceiptJob(Described):
    id: str
    name: str
    status: JobStatus
    exit_code: int | None
    submitted_at: Instant
    finished_at: Instant | None


@record(frozen=True, kw_only=True)
class _OfJob(Described):
    job: ReceiptJob


@record(frozen=True, kw_only=True)
class ItemizedReceipt(Receipt, _OfJob):
    machines: list[ReceiptMachine]
    lines: list[ReceiptLine]
    """They add up to ``posted``."""
    currency: str
