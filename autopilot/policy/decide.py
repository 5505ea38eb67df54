"""``decide``: one costed decision for one job. The order of the questions is the policy:

1. Does the job still want capacity? If not, everything is released.
2. Is there money for more than a safe stop? If not: save, stop, park.
3. Is a move under way? Then its next step (``migration``).
4. No machine → the cheapest way to finish, or on-demand when the deadline asks for it.
5. A machine that loads, works, is offline or paused → hold, give up, move, wait, re-bid or leave.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.actions import Acquire, Action, Decision, Note, Release, SaveAndStop, SetStatus
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO, Number
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.cost import Candidate, best, candidates, lease_cost_to_finish
from autopilot.policy.deadline import Pressure, pressure
from autopilot.policy.eligibility import eligible
from autopilot.policy.migration import continue_move, was_saved
from autopilot.policy.params import Params
from autopilot.policy.paused import decide_paused

GIVEN_UP = ("expired", "left")
"""What an agent reports when it has stopped for good."""


def decide(job: Job, market: Market, now: datetime, params: Params) -> Decision:
    """Frozen values in, action values out; the same input always gives the same decision."""
    if not job.status.wants_capacity:
        note = Note("over", (("status", job.status), ("reason", job.reason)))
        if _may_go_on(job, market, now):
            return _answer((SetStatus(JobStatus.PENDING, Reason.SUBMITTED),), now, params, note)
        return _answer(_release_all(job, job.reason), now, params, note)
    if job.fruitless >= params.max_fruitless:
        note = Note("never_started", (("launches", job.fruitless),))
        failed = SetStatus(JobStatus.FAILED, Reason.NEVER_STARTED)
        return _answer((*_release_all(job, Reason.NEVER_STARTED), failed), now, params, note)
    force = pressure(job, now, params)
    notes = [_pressure_note(job, force, params)]
    left = budget.left(job, params)
    if left is not None and left <= ZERO:
        note = Note("budget", (("left", left),))
        return _answer(_park(job, _exhausted(job), now, params), now, params, *notes, note)
    over = market.allowance.exhausted
    if over is not None:
        allowance = (("day_left", market.allowance.day), ("month_left", market.allowance.month))
        parked = SetStatus(JobStatus.PARKED, over)
        return _answer(_park(job, parked, now, params), now, params, *notes, Note("limits", allowance))
    found = candidates(job, market, eligible(job, market, now, params), params)
    notes.append(_offers_note(found))
    if job.next is not None:
        return _answer(continue_move(job, now, params), now, params, *notes)
    actions, why = _for_main(job, job.main, found, force, market, now, params)
    return _answer(actions, now, params, *notes, *why)


def _for_main(
    job: Job,
    main: Lease | None,
    found: list[Candidate],
    force: Pressure,
    market: Market,
    now: datetime,
    params: Params,
) -> tuple[tuple[Action, ...], tuple[Note, ...]]:
    if main is None:
        return _acquire(job, found, force, Slot.MAIN, params)
    if main.exit_code is not None:
        return (Release(main.id, Reason.RETRY),), ()
    if main.instance_id is None:
        return (), ()
    if now >= main.not_after:
        return (Release(main.id, Reason.EXPIRING),), ()
    if main.offline_since is not None:
        if now - main.offline_since >= timedelta(seconds=params.offline_grace_s):
            return (Release(main.id, Reason.HOST_LOST),), ()
        return (), ()
    if main.state is LeaseState.PAUSED:
        view = market.providers.get(main.provider)
        can_rebid = view is not None and view.capabilities.can_rebid
        return decide_paused(job, main, found, force, can_rebid, now, params)
    silent_for = now - max(main.agent_seen_at or main.intended_at, main.running_since or main.intended_at)
    if main.running_since is None or not main.agent_state:
        if now - _loading_since(main) >= timedelta(seconds=params.loading_timeout_s):
            return (Release(main.id, Reason.STUCK_LOADING),), ()
        is_mute = main.running_since is not None and silent_for >= timedelta(seconds=params.silence_s)
        return ((Release(main.id, Reason.AGENT_SILENT),) if is_mute else ()), ()
    if silent_for >= timedelta(seconds=params.silence_s) or main.agent_state in GIVEN_UP:
        return (Release(main.id, Reason.AGENT_SILENT),), ()
    expires = main.not_after - timedelta(seconds=params.save_timeout_s + params.tick_lag_s)
    if now >= expires and main.role is Role.RUN:
        return (SaveAndStop(main.id, Reason.EXPIRING),), ()
    if main.role is Role.SAVE_AND_STOP:
        # Its new home was lost, or the budget grew, after it was told to stop; a stopped run does not go on.
        reason = Reason.EXPIRING if now >= expires else Reason.MOVING
        return ((Release(main.id, reason),) if was_saved(job, main, now, params) else ()), ()
    return _while_working(job, main, found, force, now, params)


def _loading_since(lease: Lease) -> datetime:
    """Since when it loads: since it was rented, or since its last pause or loss of its host was over."""
    idle = (InstanceStatus.STOPPED, InstanceStatus.OFFLINE)
    woken = [span.ended_at for span in lease.spans if span.status in idle and span.ended_at]
    return woken[-1] if woken else lease.acquired_at or lease.intended_at


def _may_go_on(job: Job, market: Market, now: datetime) -> bool:
    """A job that an account limit parked goes on by itself on a new day, or in a new month."""
    if job.status is not JobStatus.PARKED or job.parked_at is None or market.allowance.exhausted is not None:
        return False
    if job.reason is Reason.OVER_DAY_LIMIT:
        return now.date() > job.parked_at.date()
    return job.reason is Reason.OVER_MONTH_LIMIT and (now.year, now.month) > (job.parked_at.year, job.parked_at.month)


def _acquire(
    job: Job, found: list[Candidate], force: Pressure, slot: Slot, params: Params
) -> tuple[tuple[Action, ...], tuple[Note, ...]]:
    if not found:
        return (), (Note("acquire", (("eligible_offers", 0),)),)
    affordable = [choice for choice in found if _is_affordable(job, choice, params)]
    choice, reason = best(affordable), Reason.CHEAPEST
    if force.needs_on_demand and job.spec.fall_back:
        # Spot may still be taken when on-demand is not to be had: late is worse than risky.
        choice, reason = best(affordable, CapacityType.ON_DEMAND) or choice, Reason.DEADLINE
    if choice is None:
        numbers = (("left", budget.left(job, params)), ("reserve", min(_reserve(job, c, params) for c in found)))
        return (_exhausted(job),), (Note("budget", numbers),)
    return (Acquire(slot, choice.offer, choice.capacity_type, choice.rate, reason),), ()


def _while_working(
    job: Job, main: Lease, found: list[Candidate], force: Pressure, now: datetime, params: Params
) -> tuple[tuple[Action, ...], tuple[Note, ...]]:
    stay = lease_cost_to_finish(job, main, main.rate, 0, params)
    if main.is_spot and force.needs_on_demand and job.spec.fall_back:
        safe = best(found, CapacityType.ON_DEMAND)
        if safe is not None and not _is_affordable(job, safe, params):
            safe = None
        note = Note("escalate", (("stay", stay), ("on_demand", safe.cost if safe else None)))
        move = Acquire(Slot.NEXT, safe.offer, safe.capacity_type, safe.rate, Reason.DEADLINE) if safe else None
        return ((move,) if move else ()), (note,)
    cheaper = best(found)
    stayed_long = main.running_since is not None and now - main.running_since >= timedelta(seconds=params.move_least_s)
    if cheaper is None:
        return (), (Note("stay", (("cost", stay),)),)
    note = Note("stay", (("cost", stay), ("cheapest_move", cheaper.cost)))
    saves_enough = cheaper.cost <= stay * (1 - params.move_saving)
    if job.remaining_work is None or not stayed_long or not saves_enough or not _is_affordable(job, cheaper, params):
        return (), (note,)
    if force.slack is not None and force.slack < 2 * force.one_more_loss:
        return (), (note,)
    move = Acquire(Slot.NEXT, cheaper.offer, cheaper.capacity_type, cheaper.rate, Reason.CHEAPER_ELSEWHERE)
    return (move,), (note,)


def _is_affordable(job: Job, choice: Candidate, params: Params) -> bool:
    left = budget.left(job, params)
    return left is None or _reserve(job, choice, params) <= left


def _reserve(job: Job, choice: Candidate, params: Params) -> Decimal:
    return budget.create_reserve(choice.rate, choice.offer.storage_rate(job.spec.disk_gb), params)


def _park(job: Job, standing: SetStatus, now: datetime, params: Params) -> tuple[Action, ...]:
    """Save, then stop paying: never a destroy of unsaved work while the money for the save was set aside."""
    main = job.main
    if main is not None and main.running_since is not None and main.role is Role.RUN and main.instance_id is not None:
        return (SaveAndStop(main.id, standing.reason), *_releases(job, Slot.NEXT, standing.reason))
    if main is not None and main.role is Role.SAVE_AND_STOP and not was_saved(job, main, now, params):
        return ()
    return (*_release_all(job, standing.reason), standing)


def _exhausted(job: Job) -> SetStatus:
    status = JobStatus.CANCELLING if job.spec.cancel_when_exhausted else JobStatus.PARKED
    return SetStatus(status, Reason.BUDGET_EXHAUSTED)


def _release_all(job: Job, reason: Reason) -> tuple[Action, ...]:
    """Every lease that is wanted; one whose create is not yet resolved is told to leave, once."""
    return tuple(
        Release(lease.id, reason)
        for lease in job.leases
        if lease.is_wanted and (lease.instance_id is not None or lease.role is not Role.LEAVE)
    )


def _releases(job: Job, slot: Slot, reason: Reason) -> tuple[Action, ...]:
    lease = job.lease_in(slot)
    return (Release(lease.id, reason),) if lease is not None and lease.instance_id is not None else ()


def _answer(actions: tuple[Action, ...], now: datetime, params: Params, *notes: Note) -> Decision:
    return Decision(actions, now + timedelta(seconds=params.tick_lag_s), notes)


def _pressure_note(job: Job, force: Pressure, params: Params) -> Note:
    numbers: tuple[tuple[str, Number], ...] = (
        ("slack_s", None if force.slack is None else round(force.slack.total_seconds())),
        ("one_more_loss_s", round(force.one_more_loss.total_seconds())),
        ("verdict", force.verdict),
        ("committed", budget.committed(job, params)),
        ("budget", job.spec.budget),
    )
    return Note("standing", numbers)


def _offers_note(found: list[Candidate]) -> Note:
    spot, on_demand = best(found, CapacityType.SPOT), best(found, CapacityType.ON_DEMAND)
    numbers: tuple[tuple[str, Number], ...] = (
        ("choices", len(found)),
        ("spot_bid", spot.rate if spot else None),
        ("spot_cost_to_finish", spot.cost if spot else None),
        ("on_demand_rate", on_demand.rate if on_demand else None),
        ("on_demand_cost_to_finish", on_demand.cost if on_demand else None),
    )
    return Note("alternatives", numbers)
