"""The script of a certification: which step is due, and what it does now. Pure, as ``policy.decide`` is.

    refusal ─► rent ─► work ─► (time that a bill can show) ─► echo ─► raise ─► nudge ─► floor ─► pause ─► resume
        ─► stop ─► start ─► end ─► pull

A certification is a job whose machines are rented, observed, limited and destroyed as those of any other job are. Only
what is done next comes from here and not from ``decide``. The ledger records its progress (``StepMark``), so that a
daemon that was killed resumes where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal

from autopilot.certify.claim import Step
from autopilot.certify.claims import settled_by
from autopilot.certify.give_back import give_back
from autopilot.certify.pull import pull
from autopilot.certify.run import (
    FIRST,
    LOSING,
    MOST_MACHINES,
    OVER,
    PER_PORT,
    PER_RUN,
    RAISED,
    SPEAKS_WITHIN,
    UNDERCUT,
    WAIT,
    Move,
    Play,
    Run,
    Turn,
    choose,
    round_up,
)
from autopilot.certify.stop import start, stop
from autopilot.certify.watched import find_broken, find_held
from autopilot.domain.actions import Acquire, Action, ChangeBid, Release, SaveAndStop, SetStatus
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict, StepMark
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.money import CENT, ZERO, Number
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.proof import GOES_WITHIN

FORWARDING = "ssh-forwards"
LONGEST = timedelta(hours=3)
"""After this a certification ends in any case."""
SHOWN_WITHIN = timedelta(minutes=3)
"""A list that lags longer than this breaks what is assumed of it."""
LOADS_WITHIN = timedelta(minutes=20)
RUNS_FOR = timedelta(minutes=20)
"""So long at one bid, for a bill that can be told from another price's."""
TAKES_HOLD_WITHIN = timedelta(minutes=5)
"""From a lower bid until the market may pause the machine."""
STAYS_FOR = timedelta(minutes=2)
RESUMES_WITHIN = timedelta(minutes=10)
MOST_CALLS = 3
RUN = "run"
"""The stretch that is no step: nothing is asked of the market."""


def play(run: Run) -> Turn:
    """The next move of the certification. ``actions`` go through the guard as any other's do."""
    if run.job.status is JobStatus.STOPPING:
        return Turn((*_release(run, run.job.reason), SetStatus(JobStatus.PARKED, run.job.reason)))
    if not run.job.status.wants_capacity:
        return Turn(_release(run, run.job.reason))
    left = budget.left(run.job, run.params)
    if run.now - run.job.submitted_at >= LONGEST or (left is not None and left <= ZERO):
        return _finish(run, (), ())
    marks: list[StepMark] = []
    findings = _of_this_market(run, find_broken(run))
    for step, act in _SCRIPT:
        mark = run.marks.get(step)
        if mark is not None and mark.over_at is not None:
            continue
        move = OVER if _settles_nothing(run, step) else act(run, mark)
        found = _of_this_market(run, move.findings)
        findings += found
        run = replace(run, findings={**run.findings, **{each.claim: each for each in found}})
        mark = move.mark or mark
        if move.is_over:
            begun_at = mark.begun_at if mark else run.now
            marks.append(StepMark(run.job.id, step, begun_at, run.now, mark.numbers if mark else ()))
        elif mark is not None and move.mark is not None:
            marks.append(mark)
        if not move.is_over or move.actions:
            return Turn(move.actions, tuple(marks), tuple(findings))
    return _finish(run, tuple(marks), tuple(findings))


def _settles_nothing(run: Run, step: str) -> bool:
    """Whether the market has no claim that this step is for. A machine is stopped to be started, and runs for a while
    for the bill; it is rented, and works, in any case."""
    settles = {Step.STOP: Step.START, RUN: Step.BILL}.get(step, step)
    return step not in (Step.RENT, Step.WORK) and not settled_by(run.claims, Step(settles))


def _of_this_market(run: Run, findings: Iterable[ClaimFinding]) -> list[ClaimFinding]:
    return [each for each in findings if each.claim in _claim_ids(run)]


def _claim_ids(run: Run) -> frozenset[str]:
    return frozenset(claim.id for claim in run.claims if claim.step)


def _finish(run: Run, marks: tuple[StepMark, ...], findings: tuple[ClaimFinding, ...]) -> Turn:
    """Give everything back, and end once nothing is rented any more."""
    if any(lease.is_wanted for lease in run.job.leases):
        return Turn(_release(run, Reason.COMPLETED), marks, findings)
    if any(not lease.is_over for lease in run.job.leases):
        return Turn((), marks, findings)
    broken = {each.claim for each in findings}
    findings += tuple(each for each in _of_this_market(run, find_held(run)) if each.claim not in broken)
    settled = {*run.findings, *(each.claim for each in findings), *settled_by(run.claims, Step.BILL)}
    unseen = tuple(run.find(claim, ClaimVerdict.NOT_SEEN) for claim in sorted(_claim_ids(run) - settled))
    proved = any(lease.agent.seen_at for lease in run.leases) or "own-id" in run.findings
    end = (JobStatus.SUCCEEDED, Reason.COMPLETED) if proved else (JobStatus.FAILED, Reason.NEVER_STARTED)
    return Turn((SetStatus(*end),), marks, (*findings, *unseen))


def _release(run: Run, reason: Reason) -> tuple[Action, ...]:
    return tuple(Release(lease.id, reason) for lease in run.job.leases if lease.is_wanted)


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
        broken = run.find("losing-bid-refused", ClaimVerdict.BROKEN, *mark.numbers, ("left_a_machine", 1))
        return Move(release, findings=(broken,), is_over=True)
    if lease.reason is not Reason.OUTBID and not run.market.providers[lease.provider].capabilities.is_pooled:
        # It was refused for another reason: the offer had gone, or the market was too busy. A pool has no such offers,
        # and may call a bid that is too low a want of capacity.
        return OVER
    held = run.find("losing-bid-refused", ClaimVerdict.HELD, *mark.numbers, ("refused_as", lease.reason))
    return Move(findings=(held,), is_over=True)


def _rent(run: Run, mark: StepMark | None) -> Move:
    """A machine that runs, and is shown under its label."""
    main = run.main
    if mark is not None and main is not None:
        return _watch_loading(run, main)
    if any(not lease.is_over for lease in run.job.leases):
        return WAIT  # what the step before left is on its way out
    tried = [lease for lease in run.leases if mark is not None and lease.intended_at >= mark.begun_at]
    on_spot = [lease for lease in tried if lease.is_spot]
    if len(tried) - len(on_spot) >= MOST_MACHINES:
        return OVER
    chosen = choose(run, allow_spot=len(on_spot) < MOST_MACHINES)
    if chosen is None:
        if len(on_spot) < MOST_MACHINES or run.market.providers[run.job.certifies].capabilities.on_demand:
            return WAIT
        # If the list has not shown them as ours, their outcome is unknown, unless the market refused all.
        is_known = run.has_held("list-shows-label") or all(lease.reason is Reason.REFUSED for lease in on_spot)
        none_won = run.find("spot-is-rented", ClaimVerdict.BROKEN, ("refused", len(on_spot)))
        return Move(findings=(none_won,) if is_known else (), is_over=True)
    offer, capacity_type, bid = chosen
    findings: tuple[ClaimFinding, ...] = ()
    if on_spot and capacity_type is CapacityType.ON_DEMAND and "spot-is-rented" not in run.findings:
        findings = (run.find("spot-is-rented", ClaimVerdict.BROKEN, ("refused", len(on_spot))),)
    begin = mark or run.begin(Step.RENT)
    begin = StepMark(begin.job_id, begin.step, begin.begun_at, numbers=(("floor", offer.floor), ("bid", bid)))
    acquire = Acquire(Slot.MAIN, offer, capacity_type, bid, Reason.CERTIFYING)
    return Move((acquire,), begin, findings)


def _watch_loading(run: Run, main: Lease) -> Move:
    if main.instance_id is None or main.acquired_at is None:
        return WAIT
    seen = _judge_label(run, main, main.acquired_at)
    if main.observed.running_since is not None and (seen or "list-shows-label" in run.findings):
        rented = (run.find("spot-is-rented", ClaimVerdict.HELD, ("bid", main.bid)),) if main.is_spot else ()
        return Move(findings=(*seen, *rented), is_over=True)
    if run.now - main.acquired_at >= LOADS_WITHIN:
        return Move((Release(main.id, Reason.STUCK_LOADING),), findings=seen)
    return Move(findings=seen)


def _judge_label(run: Run, main: Lease, acquired_at: datetime) -> tuple[ClaimFinding, ...]:
    if "list-shows-label" in run.findings:
        return ()
    waited_s = round((run.now - acquired_at).total_seconds())
    if run.instance is not None and run.is_fresh:
        verdict = ClaimVerdict.HELD if run.instance.label == main.label else ClaimVerdict.BROKEN
        shown = 1 if run.instance.label == main.label else 0
        return (run.find("list-shows-label", verdict, ("seconds", waited_s), ("label_shown", shown)),)
    if run.now - acquired_at >= SHOWN_WITHIN:
        return (run.find("list-shows-label", ClaimVerdict.BROKEN, ("seconds", waited_s)),)
    return ()


def _work(run: Run, mark: StepMark | None) -> Move:
    """The machine's agent reads its orders: it found itself under its own id, and reached the mailbox."""
    main = run.main
    if main is not None and main.agent.boot > 0:
        own_id = (run.find("own-id", ClaimVerdict.HELD),) if "own-id" not in run.findings else ()
        since = main.observed.running_since
        is_late = since is not None and run.now - since >= SPEAKS_WITHIN
        if run.job.step >= PER_RUN and (is_late or not run.is_dialled or run.forwards is not None):
            return Move(findings=(*own_id, _judge_port(run), *_judge_forwarding(run)), is_over=True)
        return Move(findings=own_id, is_over=is_late)
    last = run.last
    if main is None:
        # Gone before its first report, without a request to end: a machine that takes itself for another ends so.
        ended_itself = last is not None and last.state is LeaseState.GONE and not last.ending.attempts
        broken = (run.find("own-id", ClaimVerdict.BROKEN),) if ended_itself and last and last.has_run else ()
        return Move(findings=broken, is_over=True)
    since = main.observed.running_since
    if run.forwards is False:
        # Nothing that it says reaches the mailbox.
        return Move((Release(main.id, Reason.AGENT_SILENT),), findings=_judge_forwarding(run), is_over=True)
    if since is not None and run.now - since >= SPEAKS_WITHIN:
        # It cannot reach the mailbox, or takes itself for another machine: either way nothing runs here.
        silent = run.find("own-id", ClaimVerdict.BROKEN, ("silent_s", round((run.now - since).total_seconds())))
        return Move((Release(main.id, Reason.AGENT_SILENT),), findings=(silent,), is_over=True)
    return WAIT


def _judge_port(run: Run) -> ClaimFinding:
    """As the machine's program says; without an address of its own a machine has no port to tell."""
    told = run.job.step // PER_PORT % (PER_RUN // PER_PORT)
    verdicts = (ClaimVerdict.NOT_SEEN, ClaimVerdict.BROKEN, ClaimVerdict.HELD)
    return run.find("one-port-in-and-out", verdicts[min(told, 2)])


def _judge_forwarding(run: Run) -> tuple[ClaimFinding, ...]:
    """Nothing of a market that claims no such thing."""
    if FORWARDING not in {claim.id for claim in run.claims}:
        return ()
    verdicts = {None: ClaimVerdict.NOT_SEEN, True: ClaimVerdict.HELD, False: ClaimVerdict.BROKEN}
    return (run.find(FORWARDING, verdicts[run.forwards]),)


def _run_for_the_bill(run: Run, mark: StepMark | None) -> Move:
    main = run.main
    if main is None or main.observed.running_since is None:
        return OVER
    return OVER if run.now - main.observed.running_since >= RUNS_FOR else WAIT


def _can_rebid(run: Run) -> Lease | None:
    """The machine, where the bid of a running one can be changed at all: where there are claims about that."""
    main = run.main
    is_tried = bool(settled_by(run.claims, Step.RAISE))
    return main if main is not None and main.is_spot and is_tried else None


def _numbers(mark: StepMark | None) -> tuple[tuple[str, Number], ...]:
    return mark.numbers if mark else ()


def _number(mark: StepMark | None, name: str) -> Decimal:
    """A number of a step that has begun."""
    value = dict(_numbers(mark))[name]
    return Decimal(str(value))


def _echo(run: Run, mark: StepMark | None) -> Move:
    """What the search shows of the GPUs that are held, after a while at one bid."""
    main = _can_rebid(run)
    shown = run.instance.floor_shown if run.instance is not None else None
    if main is None:
        return OVER
    if shown is None:  # a daemon that has just begun has not searched yet
        is_late = mark is not None and run.now - mark.begun_at >= STAYS_FOR
        return OVER if is_late else WAIT if mark is not None else Move(mark=run.begin(Step.ECHO))
    is_echo = abs(shown - main.bid) <= run.params.bids.unit
    verdict = ClaimVerdict.HELD if is_echo else ClaimVerdict.BROKEN
    found = run.find("floor-echoes-own-bid", verdict, ("bid", main.bid), ("shown", shown))
    return Move(findings=(found,), is_over=True)


def _raise(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None or main.state is not LeaseState.ACTIVE:
        return OVER
    if mark is None:
        bid = round_up(main.bid * RAISED, run.params)
        return _ask_for(run, main, Step.RAISE, bid)
    return _read_back(run, main, mark, "raise-taken", CENT)


def _nudge(run: Run, mark: StepMark | None) -> Move:
    """Where raises are taken at all."""
    main = _can_rebid(run)
    if main is None or main.state is not LeaseState.ACTIVE or not run.has_held("raise-taken"):
        return OVER
    if mark is None:
        return _ask_for(run, main, Step.NUDGE, main.bid + run.params.bids.unit)
    return _read_back(run, main, mark, "small-raise-taken")


def _floor(run: Run, mark: StepMark | None) -> Move:
    """Nothing is seen of a market that takes no lower bid."""
    main = _can_rebid(run)
    if main is None:
        return OVER
    if mark is None:
        if main.state is not LeaseState.ACTIVE:
            return OVER
        return _ask_for(run, main, Step.FLOOR, round_up(_number(run.marks.get(Step.RENT), "floor"), run.params))
    if main.state is not LeaseState.PAUSED:
        return _read_back(run, main, mark, "floor-bid-wins", else_found=ClaimVerdict.NOT_SEEN)
    # The market may say what would have won: more than a hair above the bid, and somebody bid that.
    needed = main.observed.price_to_win
    has_rival = needed is not None and needed > _number(mark, "bid") + 2 * run.params.bids.unit
    verdict = ClaimVerdict.NOT_SEEN if has_rival else ClaimVerdict.BROKEN
    return Move(findings=(run.find("floor-bid-wins", verdict, *mark.numbers, ("needed", needed)),), is_over=True)


def _ask_for(run: Run, main: Lease, step: Step, bid: Decimal, times: int = 1) -> Move:
    mark = run.begin(step, ("bid", bid), ("times", times))
    return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), mark)


def _read_back(
    run: Run,
    main: Lease,
    mark: StepMark,
    claim: str,
    rounding: Decimal | None = None,
    else_found: ClaimVerdict = ClaimVerdict.BROKEN,
) -> Move:
    """Whether the list shows the bid that was asked for, on a machine that goes on running.

    A call may be lost: the claim is ``else_found`` once it was sent ``MOST_CALLS`` times in vain. ``rounding``: the
    market may round the bid by less than that; None: by less than a step of bids.
    """
    within = rounding or run.params.bids.unit
    waited = run.now - mark.begun_at
    shown = run.instance.bid if run.instance is not None and run.is_fresh else None
    asked = _number(mark, "bid")
    if shown is not None and abs(shown - asked) < within and waited >= STAYS_FOR:
        return Move(findings=(run.find(claim, ClaimVerdict.HELD, ("asked", asked), ("shown", shown)),), is_over=True)
    if waited < TAKES_HOLD_WITHIN:
        return WAIT
    times = int(_number(mark, "times"))
    if times < MOST_CALLS:
        return _ask_for(run, main, Step(mark.step), asked, times + 1)
    return Move(findings=(run.find(claim, else_found, ("asked", asked), ("shown", shown)),), is_over=True)


def _pause(run: Run, mark: StepMark | None) -> Move:
    main = _can_rebid(run)
    if main is None:
        lost = mark is not None and run.last is not None and not run.last.ending.attempts
        broken = (run.find("outbid-pauses", ClaimVerdict.BROKEN, *mark.numbers),) if lost and mark else ()
        return Move(findings=broken, is_over=True)
    if main.state is LeaseState.PAUSED:
        # By the bid that was lowered for it: nothing else is known to have stopped it.
        is_outbid = main.observed.pause_cause in (Reason.OUTBID, Reason.DISPLACED, Reason.UNKNOWN)
        held = (run.find("outbid-pauses", ClaimVerdict.HELD, *_numbers(mark)),) if is_outbid else ()
        return Move(findings=held, is_over=True)
    if mark is None:
        bid = round_up(_number(run.marks.get(Step.RENT), "floor") * UNDERCUT, run.params)
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
        bid = round_up(_number(run.marks.get(Step.RENT), "floor") * FIRST, run.params)
        numbers = (("bid", bid), ("boot", main.agent.boot), ("step", run.job.step))
        return Move((ChangeBid(main.id, bid, Reason.CERTIFYING),), run.begin(Step.RESUME, *numbers))
    waited = run.now - mark.begun_at
    findings: tuple[ClaimFinding, ...] = ()
    if main.state is LeaseState.ACTIVE and "raise-resumes" not in run.findings:
        seconds = ("seconds", round(waited.total_seconds()))
        findings = (run.find("raise-resumes", ClaimVerdict.HELD, seconds),)
    since = main.observed.running_since
    if main.state is LeaseState.ACTIVE and since is not None:
        has_spoken = main.agent.seen_at is not None and main.agent.seen_at > mark.begun_at
        has_begun = run.job.step // PER_RUN > int(_number(mark, "step")) // PER_RUN
        # An agent on a new disk counts its boots from one again, and its reports are taken for old ones.
        if (has_spoken and has_begun) or run.now - since >= SPEAKS_WITHIN:
            judged = _judge_disk(run, main, int(_number(mark, "boot")), has_begun=has_begun)
            return Move(findings=(*findings, *judged), is_over=True)
        return Move(findings=findings)
    if waited >= RESUMES_WITHIN:
        missed = "raise-resumes" not in run.findings
        broken = (run.find("raise-resumes", ClaimVerdict.BROKEN, *mark.numbers),) if missed else ()
        return Move(findings=broken, is_over=True)
    return WAIT


def _judge_disk(run: Run, main: Lease, boot_before: int, *, has_begun: bool) -> tuple[ClaimFinding, ...]:
    """By the boots that the agent counts on its disk. ``has_begun``: the program has, and told what it found there."""
    kept = main.agent.boot > boot_before
    boots = (("boot_before", boot_before), ("boot", main.agent.boot))
    disk = run.find("disk-kept", ClaimVerdict.HELD if kept else ClaimVerdict.BROKEN, *boots)
    if not has_begun:
        return (disk,)
    seconds = run.job.step % PER_PORT
    return disk, run.find("no-sigterm", ClaimVerdict.BROKEN if seconds else ClaimVerdict.HELD, ("seconds", seconds))


def _end(run: Run, mark: StepMark | None) -> Move:
    """A machine that was ordered to stop gets no more permits; when the last one is over it destroys itself."""
    if "own-key-destroys" not in _claim_ids(run):
        return give_back(run, mark)
    main = run.main
    if mark is None:
        if main is None or main.instance_id is None:
            return OVER
        if main.state is not LeaseState.ACTIVE:
            return Move(_release(run, Reason.COMPLETED), is_over=True)
        return Move((SaveAndStop(main.id, Reason.COMPLETED),), run.begin(Step.END))
    if main is None:
        held = run.last is not None and _ended_itself(run.last)
        return Move(findings=(run.find("own-key-destroys", ClaimVerdict.HELD),) if held else (), is_over=True)
    ends_at = main.permit_ends_at
    if ends_at is None or main.observed.absences:
        return WAIT
    if run.now < ends_at + GOES_WITHIN:
        return WAIT
    late_s = round((run.now - ends_at).total_seconds())
    broken = run.find("own-key-destroys", ClaimVerdict.BROKEN, ("still_there_s", late_s))
    return Move((Release(main.id, Reason.COMPLETED),), findings=(broken,), is_over=True)


def _ended_itself(lease: Lease) -> bool:
    """It was not destroyed, and was there until its permit was over, so that a loss of its host does not count."""
    ends_at, gone_at = lease.permit_ends_at, lease.ending.gone_at
    is_gone = lease.state is LeaseState.GONE and not lease.ending.attempts
    return is_gone and ends_at is not None and gone_at is not None and gone_at >= ends_at


_SCRIPT: tuple[tuple[str, Play], ...] = (
    (Step.REFUSAL, _refusal),
    (Step.RENT, _rent),
    (Step.WORK, _work),
    (RUN, _run_for_the_bill),
    (Step.ECHO, _echo),
    (Step.RAISE, _raise),
    (Step.NUDGE, _nudge),
    (Step.FLOOR, _floor),
    (Step.PAUSE, _pause),
    (Step.RESUME, _resume),
    (Step.STOP, stop),
    (Step.START, start),
    (Step.END, _end),
    (Step.PULL, pull),
)
