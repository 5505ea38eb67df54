"""Leases: our record of one rental, from the intent before the create to the proof that it is gone.

The table ``LEASE_TRANSITIONS`` is the whole life; ``moved`` is the only way along it:

    INTENT ──────► ACTIVE ◄──► PAUSED
      │  │            │           │
      │  └────────────┴─────┬─────┘
      ▼                     ▼
    ABANDONED ──► DESTROY_REQUESTED ──► DESTROY_SENT ──► GONE

ABANDONED and GONE may go back to DESTROY_REQUESTED: a create that lands late, or a destroyed instance that the
market brings back, is destroyed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Self

from autopilot.domain.agent_state import AgentState
from autopilot.domain.errors import InvalidTransition
from autopilot.domain.instance import CostKind, Instance, InstanceStatus
from autopilot.domain.money import BYTES_PER_GB, ZERO, Number, accrue, ceil_nano
from autopilot.domain.offer import CapacityType
from autopilot.domain.readings import Readings
from autopilot.domain.reasons import Reason
from autopilot.domain.time import split_by_day


class LeaseState(StrEnum):
    INTENT = "intent"
    ACTIVE = "active"
    PAUSED = "paused"
    DESTROY_REQUESTED = "destroy_requested"
    DESTROY_SENT = "destroy_sent"
    GONE = "gone"
    ABANDONED = "abandoned"


LEASE_TRANSITIONS: dict[LeaseState, frozenset[LeaseState]] = {
    LeaseState.INTENT: frozenset({LeaseState.ACTIVE, LeaseState.DESTROY_REQUESTED, LeaseState.ABANDONED}),
    LeaseState.ACTIVE: frozenset({LeaseState.PAUSED, LeaseState.DESTROY_REQUESTED, LeaseState.GONE}),
    LeaseState.PAUSED: frozenset({LeaseState.ACTIVE, LeaseState.DESTROY_REQUESTED, LeaseState.GONE}),
    LeaseState.DESTROY_REQUESTED: frozenset({LeaseState.DESTROY_SENT, LeaseState.GONE}),
    LeaseState.DESTROY_SENT: frozenset({LeaseState.DESTROY_REQUESTED, LeaseState.GONE}),
    LeaseState.GONE: frozenset({LeaseState.DESTROY_REQUESTED}),
    LeaseState.ABANDONED: frozenset({LeaseState.DESTROY_REQUESTED}),
}

UPLOADS_UNREPORTED = 2
"""Checkpoints that a machine may have sent beyond what its agent has reported: the one on its way, and the last."""

WANTED = frozenset({LeaseState.INTENT, LeaseState.ACTIVE, LeaseState.PAUSED})
OVER = frozenset({LeaseState.GONE, LeaseState.ABANDONED})


class BillWait(StrEnum):
    """Why the market's bill for a machine that is gone is not yet believed."""

    NO_BILL = "no_bill"
    PERIODS_MISSING = "periods_missing"
    """It does not reach over all of the time in which the machine was seen."""
    LINES_MISSING = "lines_missing"
    """A day of computing or of the disk has no line."""
    TOO_LOW = "too_low"
    """It is lower than what the machine was seen to run up."""
    SECOND_LOOK = "second_look"
    """It looks complete. Another look, an hour later, is to show the same."""


class Slot(StrEnum):
    MAIN = "main"
    """Only the lease in this slot may run the user's command."""
    NEXT = "next"
    """A migration's new home, set up and waiting."""


class Role(StrEnum):
    """What the orders tell the agent to do."""

    WAIT = "wait"
    RUN = "run"
    SAVE_AND_STOP = "save_and_stop"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a lease's life in which nothing that it bills changed. ``ended_at`` None: it still runs."""

    status: InstanceStatus
    billed_rate: Decimal
    """$/h of compute billed in this span (zero unless running)."""
    storage_rate: Decimal
    started_at: datetime
    ended_at: datetime | None = None
    is_observed: bool = True
    """False: it was unobserved then. Its rates are the highest that the machine can have billed."""
    cause: Reason | None = None
    """For a needed machine that is stopped: the known cause. None: it is not stopped, or not examined yet."""


@dataclass(frozen=True, slots=True)
class Billing:
    """What is set aside for a lease, and how far the market's bill for it has come."""

    reserved: Decimal = ZERO
    """Dollars set aside with the intent: the most that it can cost before it is seen, and ending it safely."""
    settled_at: datetime | None = None
    """When the market's bill was taken to be complete."""
    reconciled_at: datetime | None = None
    """When the market's bill was last compared, regardless of the result."""
    waits_for: BillWait | None = None
    """What its bill lacked when it was last compared; None: nothing, or it was not compared yet."""
    unobserved: Decimal = ZERO
    """Dollars that it can have cost at most in gaps between lists, while the outcome of its create was not known."""
    tail: timedelta | None = None
    """For so long the disk is paid from what is set aside, should the destroy be slow; None: as the parameters say."""
    unwatched: timedelta | None = None
    """For so long it may run at our cost should the daemon be lost: it cannot end its own bill. None: it can."""


@dataclass(frozen=True, slots=True)
class Bidding:
    """What became of the bid since the machine was rented."""

    changed_at: datetime | None = None
    first: Decimal | None = None
    """$/h: what was bid at first, once the bid was changed; None: it never was."""
    highest: Decimal | None = None
    """$/h: the highest that was ever bid, once the bid was changed; None: it never was."""
    raises: int = 0
    """Since the last time it ran."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the market's lists have shown of the machine."""

    status: InstanceStatus = InstanceStatus.PROVISIONING
    running_since: datetime | None = None
    paused_at: datetime | None = None
    pause_cause: Reason | None = None
    offline_since: datetime | None = None
    seen_at: datetime | None = None
    absences: int = 0
    """Complete lists in a row, far enough apart, without it."""
    absent_at: datetime | None = None
    """When the last of these absences was counted."""
    lists_since_intent: int = 0
    price_to_win: Decimal | None = None
    """$/h: the least bid that brings a paused machine back, where the market says it."""


@dataclass(frozen=True, slots=True)
class LeaseOrders:
    """What the agent is ordered to do."""

    role: Role = Role.WAIT
    stop_ordered_at: datetime | None = None
    run_epoch: int = 0
    """The job's epoch with which this lease was promoted to main; 0 before that."""
    stop_seq: int = 0
    """The first orders that said to save and stop; 0 when none did."""


@dataclass(frozen=True, slots=True)
class Permit:
    """The machine's leave to go on."""

    seq: int = 0
    renewed_at: datetime | None = None
    ttl_s: int | None = None
    """How long that permit lasts; None: as long as the settings say. Near a limit it is made shorter."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What the agent on the machine claims, by its newest heartbeat and its exit record."""

    boot: int = 0
    seq: int = 0
    """Number of the newest heartbeat, within its boot."""
    state: AgentState = AgentState.UNHEARD
    seen_at: datetime | None = None
    preparing_since: datetime | None = None
    """Since when it reports this stage of getting ready for the command; None: it does not, or works."""
    has_saved: bool = False
    last_checkpoint: int | None = None
    """Highest number of a checkpoint of this lease whose manifest it claims to have written."""
    log_count: int = 0
    """Log chunks of the current boot that it claims to have written."""
    sent_bytes: int = 0
    """As of the newest heartbeat, within its boot."""
    exit_code: int | None = None
    """Exit code of the user's command, once its present run has ended on this lease."""
    failed_by_host: bool = False
    """That run failed by the machine rather than by itself."""
    failures: int = 0
    """Runs in a row that failed on this lease."""
    is_blamed: bool = False
    """Tasks failed there in a way that speaks of the machine: it gets no more."""
    working_since: datetime | None = None
    """Since when it is seen to run the command, or the setup before it, of its present run; None: it never was."""
    can_run_again: bool = False
    """It takes orders with a new run epoch after an exit."""
    can_take_next: bool = False
    """After an exit it takes orders for another task of the same array."""
    readings: Readings | None = None
    """The newest. Agents of older versions send none."""
    stalled_since: datetime | None = None
    """Since when its command has shown nothing new; None: it has, or this is unknown."""


SLOW_WINDOWS = 2
"""A single slow one may be a pause of the command: to evaluate, to save."""


@dataclass(frozen=True, slots=True)
class PaceAnchor:
    """Where the job's pace on this machine is measured from: its present boot's first report of progress."""

    work: timedelta | None = None
    """The job's work done then."""
    progress: Decimal | None = None
    """0..1."""
    window_work: timedelta | None = None
    """The same of its present window, the newest minutes: its pace of late is measured over one after another."""
    window_progress: Decimal | None = None
    recent_pace: Decimal | None = None
    """Share of the job done per hour in the window before."""
    slow_windows: int = 0
    """So many in a row were slow beside the job's own pace on such GPUs."""

    @property
    def is_slow(self) -> bool:
        return self.slow_windows >= SLOW_WINDOWS


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the machine sends and receives, and at what price."""

    upload_price: Decimal = ZERO
    """$/GB sent by the instance."""
    download_price: Decimal = ZERO
    """$/GB that the instance received."""
    download_gb: Decimal = ZERO
    """Taken to be received in setting up: nothing meters it before the bill does."""
    upload_gb: Decimal = ZERO
    """Taken to be sent with each checkpoint: the setting, or the largest checkpoint that was seen."""
    sent_by_day: tuple[tuple[str, Number], ...] = ()
    """Bytes reported by all its agents so far, by UTC day ("2026-11-20")."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How far its destroy has come."""

    requested_at: datetime | None = None
    sent_at: datetime | None = None
    attempts: int = 0
    gone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskUse:
    """One task's time on a machine."""

    job_id: str
    """The task."""
    ordered_at: datetime
    """Orders for the first task when its machine was first heard: no order arrives before."""
    ended_at: datetime | None = None
    """When its exit was taken in. None: it is still there, or left without one."""


@dataclass(frozen=True, slots=True)
class Lease:
    id: str
    job_id: str | None
    """None: an instance with our label whose job the ledger does not know. Of a reused machine the task that has it."""
    slot: Slot
    state: LeaseState
    provider: str
    label: str
    capacity_type: CapacityType
    offer_id: str
    machine_id: str
    host_id: str
    gpu: str
    num_gpus: int
    disk_gb: Decimal
    bid: Decimal
    """$/h of compute while running: the current bid on spot, the posted price on demand."""
    storage_rate: Decimal
    """$/h of the disk."""
    on_demand_price: Decimal | None
    """$/h: what the same machine cost on demand when this was rented; for savings reports."""
    intended_at: datetime
    not_after: datetime
    """Absolute lifetime: the instance is released then in any case."""
    reason: Reason
    decision_id: str | None = None
    instance_id: str | None = None
    create_unknown: bool = False
    """The create's outcome is not known; only listing for the label resolves it."""
    acquired_at: datetime | None = None
    held_until: datetime | None = None
    """It is wanted until then although its job is over: the owner of a failed one may look into it, or it proves its
    market (``is_proving``)."""
    billing: Billing = Billing()
    bidding: Bidding = Bidding()
    observed: Observed = Observed()
    orders: LeaseOrders = LeaseOrders()
    permit: Permit = Permit()
    agent: AgentReport = AgentReport()
    anchor: PaceAnchor = PaceAnchor()
    traffic: Traffic = Traffic()
    ending: Ending = Ending()
    spans: tuple[Span, ...] = ()
    ram_gb: Decimal | None = None
    """Of the machine's memory what was rented; None: its market did not say, or it was rented by an older version."""
    uses: tuple[TaskUse, ...] = ()
    """The tasks of one array that it was given to, one after another. Empty: its job is no task, or was never heard."""

    @property
    def is_wanted(self) -> bool:
        return self.state in WANTED

    @property
    def is_proving(self) -> bool:
        """Its job has ended well, and its last permit is let lapse: it must destroy itself, which proves its market."""
        return self.held_until is not None and self.reason is Reason.PROVING

    @property
    def outlives_destroy(self) -> bool:
        """Its market has shown it again since it took the destroy."""
        sent_at, seen_at = self.ending.sent_at, self.observed.seen_at
        return not self.is_over and sent_at is not None and seen_at is not None and seen_at > sent_at

    @property
    def permit_ends_at(self) -> datetime | None:
        """When its newest permit ends, where it was told for how long that lasts."""
        renewed_at, ttl_s = self.permit.renewed_at, self.permit.ttl_s
        return None if renewed_at is None or ttl_s is None else renewed_at + timedelta(seconds=ttl_s)

    def is_rented_since(self, moment: datetime | None) -> bool:
        """Whether its rental was decided then or later; None: ever."""
        return moment is None or self.intended_at >= moment

    @property
    def end_asked_at(self) -> datetime:
        """When the end of a released lease was requested. One that was never rented has no destroy: when it was
        intended.
        """
        return self.ending.requested_at or self.intended_at

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def may_be_billed(self) -> bool:
        """Given up unobserved, but a machine of it can have run while no list was read: its bill would tell."""
        is_unknown = self.state is LeaseState.ABANDONED and self.create_unknown and self.instance_id is None
        return is_unknown and self.billing.unobserved > ZERO and self.billing.settled_at is None

    @property
    def is_shared(self) -> bool:
        """Whether several tasks have used it."""
        return len({use.job_id for use in self.uses}) > 1

    @property
    def first_job_id(self) -> str | None:
        """The job that it was rented for: its orders lie there for all of its life."""
        return self.uses[0].job_id if self.uses else self.job_id

    @property
    def is_spot(self) -> bool:
        return self.capacity_type is CapacityType.SPOT

    def is_of(self, instance: Instance) -> bool:
        """That very machine, and still ours: a market may reuse an id, a user may take a machine over by its label.

        A label that is missing proves neither: it may be the market that no longer shows any.
        """
        return instance.instance_id == self.instance_id and instance.label in ("", self.label)

    @property
    def has_run(self) -> bool:
        """Whether anybody ever saw it run: the market's list, or its agent."""
        return self.agent.boot > 0 or any(span.status is InstanceStatus.RUNNING for span in self.spans)

    @property
    def was_listed(self) -> bool:
        """Whether the market has shown it, and so what it bills for it, since it said that it was created."""
        return self.observed.seen_at is not None and self.observed.seen_at != self.acquired_at

    @property
    def observed_at(self) -> datetime:
        """When the market last gave word of it: shown, or plainly missing from a complete list."""
        return max(
            at for at in (self.intended_at, self.acquired_at, self.observed.seen_at, self.observed.absent_at) if at
        )

    @property
    def shown_at(self) -> datetime:
        """When the market last showed it, or said that it was made. A list that lacks it may be wrong."""
        return max(at for at in (self.intended_at, self.acquired_at, self.observed.seen_at) if at)

    @property
    def burn_upper(self) -> Decimal:
        """$/h that this lease may bill at worst, running or about to."""
        return self.bid + self.storage_rate

    @property
    def computes_at(self) -> Decimal:
        """$/h of compute while it runs, as last seen: what its market bills, which may be less than its bid."""
        last = self.spans[-1] if self.spans else None
        is_billed = last is not None and last.ended_at is None and last.status is InstanceStatus.RUNNING
        return last.billed_rate if last is not None and is_billed else self.bid

    def move(self, state: LeaseState, **changes: object) -> Self:
        """This lease in another state; raises ``InvalidTransition`` where the table has no such arrow."""
        if state is not self.state and state not in LEASE_TRANSITIONS[self.state]:
            raise InvalidTransition(f"lease {self.id}: {self.state} → {state}")
        return replace(self, state=state, **changes)  # type: ignore[arg-type]

    def bill_as(self, status: InstanceStatus, billed_rate: Decimal, storage_rate: Decimal, at: datetime) -> Self:
        """Close the open span at ``at`` and open one with what is billed from then on; no change, no new span."""
        running = status is InstanceStatus.RUNNING
        stored = status is not InstanceStatus.OFFLINE
        stays = bool(self.spans) and status is InstanceStatus.STOPPED and self.spans[-1].status is status
        cause = self.spans[-1].cause if stays else None
        new = Span(status, billed_rate if running else ZERO, storage_rate if stored else ZERO, at, cause=cause)
        if self.spans and self.spans[-1].ended_at is None:
            last = self.spans[-1]
            if replace(last, started_at=at) == new:
                return self
            at = max(at, last.started_at)
            return replace(self, spans=(*self.spans[:-1], replace(last, ended_at=at), replace(new, started_at=at)))
        return replace(self, spans=(*self.spans, new))

    def stop_billing(self, at: datetime) -> Self:
        """Close the open span, if any: nothing bills from ``at`` on."""
        if not self.spans or self.spans[-1].ended_at is not None:
            return self
        last = self.spans[-1]
        return replace(self, spans=(*self.spans[:-1], replace(last, ended_at=max(at, last.started_at))))


def keep_watched(lease: Lease, now: datetime) -> Lease:
    """As far as the market has shown it: what it did since is not known before it is shown again, or gone."""
    if not lease.spans or lease.spans[-1].ended_at is not None:
        return lease
    until = min(now, lease.shown_at)
    spans = (replace(each, ended_at=min(each.ended_at or until, until)) for each in lease.spans)
    return replace(lease, spans=tuple(each for each in spans if each.started_at < until))


@dataclass(frozen=True, slots=True)
class UnobservedRun:
    """A machine was found stopped after an unobserved time."""

    found_at: datetime
    spans: tuple[Span, ...]
    """The parts of that time in which it is assumed to have computed."""

    @property
    def cost(self) -> Decimal:
        """Dollars of compute, at most."""
        return sum(
            (accrue(each.billed_rate, (each.ended_at or self.found_at) - each.started_at) for each in self.spans), ZERO
        )

    @property
    def days(self) -> frozenset[date]:
        whole = ((each.started_at, each.ended_at or self.found_at) for each in self.spans)
        return frozenset(day for since, until in whole for day, _, _ in split_by_day(since, until))


def unobserved_run(lease: Lease) -> UnobservedRun | None:
    """What a bill may give back of a stopped machine; None: nothing of it is in doubt."""
    if lease.state is not LeaseState.PAUSED:
        return None
    spans, found_at = list(lease.spans), None
    while spans and spans[-1].is_observed and spans[-1].status is InstanceStatus.STOPPED:
        found_at = spans.pop().started_at
    unseen = []
    while spans and not spans[-1].is_observed:
        unseen.append(spans.pop())
    computing = tuple(span for span in unseen if span.billed_rate)
    return UnobservedRun(found_at, computing) if found_at is not None and computing else None


def unwatched_since(lease: Lease) -> datetime:
    """Since when nothing is known of what its open span costs."""
    since = lease.spans[-1].started_at
    for span in reversed(lease.spans[:-1]):
        if span.ended_at != since:
            break
        since = span.started_at
    return max(since, lease.shown_at)


def cost_by_day(lease: Lease, now: datetime) -> dict[tuple[CostKind, date], Decimal]:
    """What the lease has cost by our own clock up to ``now``, per kind and UTC day.

    Totals, not increments: each span is cut at midnight and accrues over its whole share of the day. Traffic is
    what the agents reported to have sent; unmetered traffic is no cost yet (``unmetered_traffic``).
    """
    totals = metered_by_day(lease.spans, now)
    for day, sent in lease.traffic.sent_by_day:
        amount = ceil_nano(lease.traffic.upload_price * Decimal(str(sent)) / BYTES_PER_GB)
        if amount:
            totals[CostKind.BANDWIDTH, date.fromisoformat(day)] = amount
    return totals


def counted_bytes(lease: Lease) -> int:
    """What its agents have reported to have sent, as far as it was believed."""
    return sum(_whole(sent) for _, sent in lease.traffic.sent_by_day)


def _whole(sent: Number) -> int:
    assert isinstance(sent, int), "bytes are whole"
    return sent


def counted_traffic(leases: Iterable[Lease]) -> Decimal:
    """Dollars for that."""
    return sum((lease.traffic.upload_price * counted_bytes(lease) / BYTES_PER_GB for lease in leases), ZERO)


def unmetered_traffic(lease: Lease) -> Decimal:
    """Dollars for traffic that only the bill will show, at most: what setting up received, and what was sent last."""
    traffic = lease.traffic
    has_received = lease.acquired_at is not None or lease.may_be_billed
    received = ceil_nano(traffic.download_price * traffic.download_gb) if has_received else ZERO
    if lease.is_over and (lease.agent.seen_at is None or lease.agent.has_saved):
        return received
    return received + ceil_nano(traffic.upload_price * traffic.upload_gb * UPLOADS_UNREPORTED)


def metered_by_day(spans: Iterable[Span], now: datetime) -> dict[tuple[CostKind, date], Decimal]:
    """What these spans have cost up to ``now``, per kind and UTC day; no traffic."""
    totals: dict[tuple[CostKind, date], Decimal] = {}
    for span in spans:
        stopped = span.status is InstanceStatus.STOPPED
        disk = CostKind.STORAGE_STOPPED if stopped else CostKind.STORAGE_RUNNING
        for day, start, end in split_by_day(span.started_at, span.ended_at or now):
            for kind, per_hour in ((CostKind.COMPUTE, span.billed_rate), (disk, span.storage_rate)):
                if per_hour:
                    totals[kind, day] = totals.get((kind, day), ZERO) + accrue(per_hour, end - start)
    return totals


def time_running(lease: Lease, now: datetime) -> timedelta:
    return sum(
        ((s.ended_at or now) - s.started_at for s in lease.spans if s.status is InstanceStatus.RUNNING), timedelta(0)
    )
