"""What whole pages show. No others ask for these, so they stand in no document."""

from __future__ import annotations

from autopilot.answers.instances import Span
from autopilot.answers.jobs import Decided, Decision, Event, Job, JobLife, Lease
from autopilot.answers.money import AccountMoney, Spend
from autopilot.answers.plans import Forecast
from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money
from autopilot.answers.schedules import Schedule
from autopilot.answers.status import Market
from autopilot.domain.job import JobStatus
from autopilot.domain.token import Scope


@record(frozen=True, kw_only=True)
class MachinesOfJob(Described):
    """What a strip of its last hours is drawn of."""

    leases: list[Lease]
    spans: dict[str, list[Span]]
    """By lease."""
    events: list[Event]


@record(frozen=True, kw_only=True)
class Posting(Described):
    at: Instant
    amount: Money


@record(frozen=True, kw_only=True)
class TaskOfPage(Described):
    id: str
    task: int
    status: JobStatus
    reason: str
    posted: Money
    is_estimate: bool


@record(frozen=True, kw_only=True)
class DrawnLife(JobLife):
    """Of one job, what its page and its picture show."""

    gpus: list[str]
    tasks: list[TaskOfPage]
    """Of an array, those that have begun; the first of them."""
    decisions: list[Decision]
    """Newest first."""
    spans: dict[str, list[Span]]
    postings: list[Posting]


@record(frozen=True, kw_only=True)
class TaskAtWork(Described):
    id: str
    name: str
    array_id: str


@record(frozen=True, kw_only=True)
class Now(Described):
    jobs: list[Job]
    """All that are open, and the newest that are over."""
    tasks: list[TaskAtWork]
    """Of arrays, those that have machines."""
    schedules: list[Schedule]
    """Those that have not ended."""
    burns: dict[str, Money]
    """$/h, by open job."""
    forecasts: dict[str, Forecast]
    account: AccountMoney | None
    """Null for users who do not see all."""
    month: Spend | None
    markets: list[Market]


@record(frozen=True, kw_only=True)
class DecidedForJob(Decided):
    job_id: str
    job: str
    """Its name."""


@record(frozen=True, kw_only=True)
class Decisions(Described):
    decisions: list[DecidedForJob]
    """Newest first."""
    before: str | None
    """Where the next page begins; null: it is the last."""


@record(frozen=True, kw_only=True)
class PageCaller(Described):
    """Whose rights a page has."""

    owner: int
    name: str
    """The token's, or the proxy's user's; empty: a user of the socket."""
    scope: Scope
    sees_all: bool
    expires_at: Instant | None
    """When the session ends; null: there is none."""
    now: Instant
    speed: float
    last_tick_at: Instant | None
    version: str


@record(frozen=True, kw_only=True)
class PageLink(Described):
    path: str
    url: str | None
    """Null for a caller from the network, who knows the address."""


@record(frozen=True, kw_only=True)
class OpenedSession(Described):
    secret: str
    expires_at: Instant
