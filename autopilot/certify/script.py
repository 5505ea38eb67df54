"""The script of a certification: which step is due, and what it does now. Pure, as ``policy.decide`` is.

    refusal ─► rent ─► work ─► (time that a bill can show) ─► raise ─► lower ─► pause ─► resume ─► end

A certification is a job whose machines are rented, observed, limited and destroyed as those of any other job are. Only
what is done next comes from here and not from ``decide``. How far it is stands in the ledger (``StepMark``), so that a
daemon that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from autopilot.certify.claim import Step
from autopilot.certify.claims import claims_of, settled_by
from autopilot.domain.actions import Acquire, Action, ChangeBid, Release, SaveAndStop, SetStatus
from autopilot.domain.certificate import Finding, StepMark, Verdict
from autopilot.domain.instance import Instance
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO, Number
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.eligibility import eligible
from autopilot.pricing.rule.bidding import ceiling

LONGEST = timedelta(hours=3)
"""After this a certification ends, whatever it has seen."""
SHOWN_WITHIN = timedelta(minutes=3)
"""A list that lags longer than this breaks what is assumed of it."""
LOADS_WITHIN = timedelta(minutes=20)
SPEAKS_WITHIN = timedelta(minutes=10)
RUNS_FOR = timedelta(minutes=20)
"""So long at one bid, for a bill that can be told from another price's."""
TAKES_HOLD_WITHIN = timedelta(minutes=5)
"""From a lower bid until the market may pause the machine."""
STAYS_FOR = timedelta(minutes=2)
RESUMES_WITHIN = timedelta(minutes=10)
GOES_WITHIN = timedelta(minutes=6)
"""From the end of its permit until a machine that ends itself is missing from the lists."""
MOST_MACHINES = 3

LOSING, FIRST, LOWERED, UNDERCUT = Decimal("0.6"), Decimal("1.2"), Decimal("1.1"), Decimal("0.5")
"""Bids, as shares of the floor."""
RAISED = Decimal("1.1")
"""As a share of the bid before."""

STARTED, WAS_WARNED = 1, 2
"""What the machine's own program reports as its step: it runs; it found that SIGTERM had come before a stop."""


@dataclass(frozen=True, slots=True)
class Run:
    """A certification at one moment."""

    job: Job
    leases: tuple[Lease, ...]
    """All that it ever had, oldest first."""
    marks: Mapping[str, StepMark]
    found: Mapping[str, Finding]
    instance: Instance | None
    """The held machine as the market's newest list shows it."""
    is_fresh: bool
    """That list is of this tick, and younger than all that was asked of the market for this machine."""
    market: Market
    now: datetime
    params: Params

    @property
    def main(self) -> Lease | None:
        return self.job.main

    @property
    def last(self) -> Lease | None:
        return self.leases[-1] if self.leases else None

    def find(self, claim: str, verdict: Verdict, *numbers: tuple[str, Number]) -> Finding:
        return Finding(self.job.id, claim, verdict, self.now, numbers)

    def begin(self, step: Step, *numbers: tuple[str, Number]) -> StepMark:
        return StepMark(self.job.id, step, self.now, numbers=numbers)


@dataclass(frozen=True, slots=True)
class Move:
    """``is_over``: the step is. Marks and findings count only if no action is vetoed."""

    actions: tuple[Action, ...] = ()
    mark: StepMark | None = None
    findings: tuple[Finding, ...] = ()
    is_over: bool = False


WAIT, OVER = Move(), Move(is_over=True)
Play = Callable[[Run, StepMark | None], Move]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is done now, and what is to be written down with it."""

    actions: tuple[Action, ...] = ()
    marks: tuple[StepMark, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def play(run: Run) -> Answer:
    """The next move of the certification. ``actions`` go through the guard as any other's do."""
    if run.job.status is JobStatus.STOPPING:
        return Answer((*_release(run, run.job.reason), SetStatus(JobStatus.PARKED, run.job.reason)))
    if not run.job.status.wants_capacity:
        return Answer(_release(run, run.job.reason))
    left = budget.left(run.job, run.params)
    if run.now - run.job.submitted_at >= LONGEST or (left is not None and left <= ZERO):
        return _finish(run, (), ())
    marks: list[StepMark] = []
    findings: list[Finding] = []
    for step, act in _SCRIPT:
        mark = run.marks.get(step)
        if mark is not None and mark.over_at is not None:
            continue
        move = act(run, mark)
        findings += [each for each in move.findings if each.claim in _known(run)]
        mark = move.mark or mark
        if move.is_over:
            begun_at = mark.begun_at if mark else run.now
            marks.append(StepMark(run.job.id, step, begun_at, run.now, mark.numbers if mark else ()))
        elif mark is not None and move.mark is not None:
            marks.append(mark)
        if not move.is_over or move.actions:
            return Answer(move.actions, tuple(marks), tuple(findings))
    return _finish(run, tuple(marks), tuple(findings))


def _known(run: Run) -> frozenset[str]:
    return frozenset(claim.id for claim in claims_of(run.job.certifies) if claim.step)


def _finish(run: Run, marks: tuple[StepMark, ...], findings: tuple[Finding, ...]) -> Answer:
    """Give everything back, and end once nothing is rented any more."""
    if any(lease.is_wanted for lease in run.job.leases):
        return Answer(_release(run, Reason.COMPLETED), marks, findings)
    if any(not lease.is_over for lease in run.job.leases):
        return Answer((), marks, findings)
    settled = {*run.found, *(each.claim for each in findings), *settled_by(run.job.certifies, Step.BILL)}
    unseen = tuple(run.find(claim, Verdict.NOT_SEEN) for claim in sorted(_known(run) - settled))
    proved = any(lease.agent.seen_at for lease in run.leases) or "own-id" in run.found
    end = (JobStatus.SUCCEEDED, Reason.COMPLETED) if proved else (JobStatus.FAILED, Reason.NEVER_STARTED)
    return Answer((SetStatus(*end),), marks, (*findings, *unseen))


def _release(run: Run, reason: Reason) -> tuple[Action, ...]:
    return tuple(Release(lease.id, reason) for lease in run.job.leases if lease.is_wanted)


# --- what is rented


def choose(run: Run) -> tuple[Offer, CapacityType, Decimal] | None:
    """The cheapest small machine, by a bid where the market has spot, else on demand; with the bid or the price."""
    offers = [each for each in eligible(run.job, run.market, run.now, run.params) if each.on_demand_price is not None]
    has_spot = run.market.providers[run.job.certifies].capabilities.spot
    bids = [(offer, _bid(run, offer, FIRST)) for offer in offers if has_spot and offer.floor is not None]
    possible = [(offer, bid) for offer, bid in bids if bid is not None]
    if possible:
        offer, bid = min(possible, key=lambda each: (each[1], each[0].key))
        return offer, CapacityType.SPOT, bid
    priced = [(offer, offer.on_demand_price) for offer in offers if offer.on_demand_price is not None]
    if not priced:
        return None
    offer, price = min(priced, key=lambda each: (each[1], each[0].key))
    return offer, CapacityType.ON_DEMAND, price


def _bid(run: Run, offer: Offer, share: Decimal) -> Decimal | None:
    """That share of the floor; None where there is no floor, or no room for a raise below the ceiling."""
    limit = ceiling(run.job.spec, offer.on_demand_price, run.params)
    if offer.floor is None or limit is None or offer.floor * FIRST * RAISED > limit:
        return None
    return _rounded(offer.floor * share, run.params)


def _rounded(bid: Decimal, params: Params) -> Decimal:
    return max(bid.quantize(params.bids.unit, ROUND_CEILING), params.bids.least)


# --- the steps


def _refusal(run: Run, mark: StepMark | None) -> Move:
    """A bid that must lose."""
    if mark is None:
        chosen = choose(run)
        if chosen is None:
            return WAIT
        offer, capacity_type, _ = chosen
        if capacity_type is not CapacityType.SPOT or offer.floor is None:
            return OVER
        bid = (offer.floor * LOSING).quantize(run.params.bids.unit, ROUND_FLOOR)
        acquire = Acquire(Slot.MAIN, offer, CapacityType.SPOT, bid, Reason.CERTIFYING)
        return Move((acquire,), run.begin(Step.REFUSAL, ("floor", offer.floor), ("bid", bid)))
    lease = run.last
    if lease is None or (lease.state is LeaseState.INTENT and lease.instance_id is None):
        return WAIT
    if lease.instance_id is not None:
        release = (Release(lease.id, Reason.CERTIFYING),) if lease.is_wanted else ()
        broken = run.find("losing-bid-refused", Verdict.BROKEN, *mark.numbers, ("left_a_machine", 1))
        return Move(release, findings=(broken,), is_over=True)
    if lease.reason is not Reason.OUTBID and run.market.providers[lease.provider].capabilities.can_rebid:
        # It was refused for another reason: the offer had gone, or the market was too busy.
        return OVER
    held = run.find("losing-bid-refused", Verdict.HELD, *mark.numbers, ("refused_as", lease.reason))
    return Move(findings=(held,), is_over=True)


def _rent(run: Run, mark: StepMark | None) -> Move:
    """A machine that runs, and is shown under its label."""
    main = run.main
    if mark is not None and main is not None:
        return _watch_loading(run, main)
    if any(not lease.is_over for lease in run.job.leases):
        return WAIT  # what the step before left is on its way out
    tried = [lease for lease in run.leases if mark is not None and lease.intended_at >= mark.begun_at]
    if len(tried) >= MOST_MACHINES:
        is_spot = all(lease.is_spot for lease in tried)
        broken = (run.find("spot-is-rented", Verdict.BROKEN, ("refused", len(tried))),) if is_spot else ()
        return Move(findings=broken, is_over=True)
    chosen = choose(run)
    if chosen is None:
        return WAIT
    offer, capacity_type, bid = chosen
    begin = mark or run.begin(Step.RENT)
    begin = StepMark(begin.job_id, begin.step, begin.begun_at, numbers=(("floor", offer.floor), ("bid", bid)))
    return Move((Acquire(Slot.MAIN, offer, capacity_type, bid, Reason.CERTIFYING),), begin)


def _watch_loading(run: Run, main: Lease) -> Move:
    if main.instance_id is None or main.acquired_at is None:
        return WAIT
    seen = _judge_label(run, main, main.acquired_at)
    if main.observed.running_since is not None and (seen or "list-shows-label" in run.found):
        rented = (run.find("spot-is-rented", Verdict.HELD, ("bid", main.bid)),) if main.is_spot else ()
        return Move(findings=(*seen, *rented), is_over=True)
    if run.now - main.acquired_at >= LOADS_WITHIN:
        return Move((Release(main.id, Reason.STUCK_LOADING),), findings=seen)
    return Move(findings=seen)


def _judge_label(run: Run, main: Lease, acquired_at: datetime) -> tuple[Finding, ...]:
    if "list-shows-label" in run.found:
        return ()
    waited_s = round((run.now - acquired_at).total_seconds())
    if run.instance is not None and run.is_fresh:
        verdict = Verdict.HELD if run.instance.label == main.label else Verdict.BROKEN
        shown = 1 if run.instance.label == main.label else 0
        return (run.find("list-shows-label", verdict, ("seconds", waited_s), ("label_shown", shown)),)
    if run.now - acquired_at >= SHOWN_WITHIN:
        return (run.find("list-shows-label", Verdict.BROKEN, ("seconds", waited_s)),)
    return ()


def _work(run: Run, mark: StepMark | None) -> Move:
    """The machine's agent reads its orders: it found itself under its own id, and reached the mailbox."""
    main = run.main
    if main is not None and main.agent.boot > 0:
        return Move(findings=(run.find("own-id", Verdict.HELD),), is_over=True)
    last = run.last
    if main is None:
        # Gone before it spoke a word, and nobody asked for that: so ends a machine that takes itself for another.
        ended_itself = last is not None and last.state is LeaseState.GONE and not last.ending.attempts
        broken = (run.find("own-id", Verdict.BROKEN),) if ended_itself and last and last.has_run else ()
        return Move(findings=broken, is_over=True)
    since = main.observed.running_since
    if since is not None and run.now - since >= SPEAKS_WITHIN:
        # It cannot reach the mailbox, or takes itself for another machine: either way nothing runs here.
        silent = run.find("own-id", Verdict.BROKEN, ("silent_s", round((run.now - since).total_seconds())))
        return Move((Release(main.id, Reason.AGENT_SILENT),), findings=(silent,), is_over=True)
    return WAIT


def _run_for_the_bill(run: Run, mark: StepMark | None) -> Move:
    main = run.main
    if main is None or main.observed.running_since is None:
        return OVER
    return OVER if run.now - main.observed.running_since >= RUNS_FOR else WAIT


def _can_rebid(run: Run) -> Lease | None:
    """The machine, where its bid can be changed."""
    main = run.main
    able = run.market.providers[run.job.certifies].capabilities
    return main if main is not None and main.is_spot and able.can_rebid else None


def _number(mark: StepMark | None, name: str) -> Decimal:
    """Of a step that has begun."""
    value = dict(mark.numbers if mark else ())[name]
    return Decimal(str(value))


def _raise(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None or main.state is not LeaseState.ACTIVE:
        return OVER
    if mark is None:
        bid = _rounded(main.bid * RAISED, run.params)
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.RAISE, ("bid", bid)))
    return _read_back(run, mark, "raise-taken")


def _lower(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None:
        return OVER
    if mark is None:
        if main.state is not LeaseState.ACTIVE:
            return OVER
        bid = _rounded(_number(run.marks.get(Step.RENT), "floor") * LOWERED, run.params)
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.LOWER, ("bid", bid)))
    if main.state is LeaseState.PAUSED:
        # Somebody may have bid more just then: that a bid above the floor lost says nothing of the call.
        return Move(findings=(run.find("lower-taken", Verdict.NOT_SEEN, *mark.numbers),), is_over=True)
    return _read_back(run, mark, "lower-taken")


def _read_back(run: Run, mark: StepMark, claim: str) -> Move:
    """Whether the list shows the bid that was asked for, on a machine that goes on running."""
    waited = run.now - mark.begun_at
    shown = run.instance.bid if run.instance is not None and run.is_fresh else None
    asked = _number(mark, "bid")
    if shown is not None and abs(shown - asked) <= run.params.bids.unit and waited >= STAYS_FOR:
        return Move(findings=(run.find(claim, Verdict.HELD, ("asked", asked), ("shown", shown)),), is_over=True)
    if waited >= TAKES_HOLD_WITHIN:
        return Move(findings=(run.find(claim, Verdict.BROKEN, ("asked", asked), ("shown", shown)),), is_over=True)
    return WAIT


def _pause(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None:
        lost = mark is not None and run.last is not None and not run.last.ending.attempts
        broken = (run.find("outbid-pauses", Verdict.BROKEN, *mark.numbers),) if lost and mark else ()
        return Move(findings=broken, is_over=True)
    if main.state is LeaseState.PAUSED:
        return Move(findings=(run.find("outbid-pauses", Verdict.HELD, *(mark.numbers if mark else ())),), is_over=True)
    if mark is None:
        bid = _rounded(_number(run.marks.get(Step.RENT), "floor") * UNDERCUT, run.params)
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.PAUSE, ("bid", bid)))
    if main.observed.absences:
        return WAIT  # whether it is gone is about to be known
    return OVER if run.now - mark.begun_at >= TAKES_HOLD_WITHIN else WAIT


def _resume(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None:
        return OVER
    if mark is None:
        if main.state is not LeaseState.PAUSED:
            return OVER
        bid = _rounded(_number(run.marks.get(Step.RENT), "floor") * FIRST, run.params)
        numbers = (("bid", bid), ("boot", main.agent.boot))
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.RESUME, *numbers))
    waited = run.now - mark.begun_at
    findings: tuple[Finding, ...] = ()
    if main.state is LeaseState.ACTIVE and "raise-resumes" not in run.found:
        seconds = ("seconds", round(waited.total_seconds()))
        findings = (run.find("raise-resumes", Verdict.HELD, seconds),)
    since = main.observed.running_since
    if main.state is LeaseState.ACTIVE and since is not None:
        has_spoken = main.agent.seen_at is not None and main.agent.seen_at > mark.begun_at
        # One on a new disk counts its boots from one again, and such a report is taken for an old one.
        if has_spoken or run.now - since >= SPEAKS_WITHIN:
            return Move(findings=(*findings, *_judge_disk(run, main, int(_number(mark, "boot")))), is_over=True)
        return Move(findings=findings)
    if waited >= RESUMES_WITHIN:
        missed = "raise-resumes" not in run.found
        broken = (run.find("raise-resumes", Verdict.BROKEN, *mark.numbers),) if missed else ()
        return Move(findings=broken, is_over=True)
    return WAIT


def _judge_disk(run: Run, main: Lease, boot_before: int) -> tuple[Finding, ...]:
    """An agent that finds its memory counts its boots on; one on a new disk begins anew."""
    kept = main.agent.boot > boot_before
    boots = (("boot_before", boot_before), ("boot", main.agent.boot))
    disk = run.find("disk-kept", Verdict.HELD if kept else Verdict.BROKEN, *boots)
    if not kept:
        return (disk,)
    was_warned = run.job.step >= WAS_WARNED
    return disk, run.find("no-sigterm", Verdict.BROKEN if was_warned else Verdict.HELD)


def _end(run: Run, mark: StepMark | None) -> Move:
    """A machine that was ordered to stop gets no more permits; when the last one is over it destroys itself."""
    main = run.main
    if mark is None:
        if main is None or main.instance_id is None:
            return OVER
        if main.state is not LeaseState.ACTIVE:
            return Move(_release(run, Reason.COMPLETED), is_over=True)
        return Move((SaveAndStop(main.id, Reason.COMPLETED),), run.begin(Step.END))
    if main is None:
        went = run.last is not None and run.last.state is LeaseState.GONE and not run.last.ending.attempts
        return Move(findings=(run.find("own-key-destroys", Verdict.HELD),) if went else (), is_over=True)
    if main.permit.renewed_at is None or main.observed.absences:
        return WAIT
    ends_at = main.permit.renewed_at + timedelta(seconds=main.permit.ttl_s or 0)
    if run.now < ends_at + GOES_WITHIN:
        return WAIT
    broken = run.find("own-key-destroys", Verdict.BROKEN, ("still_there_s", round((run.now - ends_at).total_seconds())))
    return Move((Release(main.id, Reason.COMPLETED),), findings=(broken,), is_over=True)


_SCRIPT: tuple[tuple[str, Play], ...] = (
    (Step.REFUSAL, _refusal),
    (Step.RENT, _rent),
    (Step.WORK, _work),
    ("run", _run_for_the_bill),
    (Step.RAISE, _raise),
    (Step.LOWER, _lower),
    (Step.PAUSE, _pause),
    (Step.RESUME, _resume),
    (Step.END, _end),
)
