"""``decide``: one costed decision for one job. The order of the questions is the policy:

1. Does the job still want capacity? If not, everything is released; a job that the user stops saves before that, and
   one that has failed may hold its machine (``hold``), one that has ended well may prove its market by it (``proof``).
   Does it wait for other jobs? Then nothing is done.
2. Is there money for more than a safe stop? If not: save, stop, park.
3. Has the command failed on a machine that is still good? Then it runs again there.
4. Is a move under way? Then its next step (``migration``).
5. No machine → the cheapest option to finish, or on-demand when the deadline asks for it.
6. A machine that loads, works, is offline or paused → hold, give up, move, wait, re-bid or leave.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import inf

from autopilot.domain.actions import Acquire, Action, Decision, Note, Release, RunAgain, SaveAndStop, SetStatus
from autopilot.domain.after import waited_for
from autopilot.domain.agent_state import COMMANDS
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Allowance, Market
from autopilot.domain.memory_kill import read_memory_kill
from autopilot.domain.money import ZERO, Number
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import is_beaten
from autopilot.domain.unfit import is_unfit
from autopilot.policy import budget
from autopilot.policy.auctioned import by_auction, is_auctioned
from autopilot.policy.eligibility import Eligibility
from autopilot.policy.failed_starts import never_starts, next_start_at
from autopilot.policy.hold import hold
from autopilot.policy.loading import cannot_boot_again, is_left_at_once, loads_too_long, prepares_too_long
from autopilot.policy.migration import continue_move, is_given_up, last_save, was_saved
from autopilot.policy.options import Option, Options, is_affordable, price_options, reserve
from autopilot.policy.paused import decide_paused, keep_by_raise
from autopilot.policy.proof import prove
from autopilot.policy.situation import Answer, Situation
from autopilot.policy.slow import leave_slow
from autopilot.policy.uncertified import find_used_up, give_back, keep_within_rooms, may_raise, room_note
from autopilot.policy.unfit import has_no_more_memory, unfit_notes
from autopilot.policy.unpaid import awaits_bill, budget_notes, end_unpaid, goes_on, limit_numbers, next_reserve
from autopilot.policy.wait import wait_notes
from autopilot.pricing.pressure import Pressure, Verdict, is_at_work, measure_pressure
from autopilot.pricing.rule.ranking import rank

RUNS_PER_MACHINE = 2
"""A command that has failed so often on a machine is tried on another one."""
_WORTH_ITS_PLACE = (Reason.DEADLINE, Reason.MACHINE_SLOW)
MOST_LOST_NOTED = 3
"""So many machines with lost bids stand in a decision's record."""


def decide(job: Job, market: Market, now: datetime, params: Params) -> Decision:
    """Frozen values in, action values out; the same input always gives the same decision.

    First what needs no machine, then what money forbids, then what its machines are at; only then is chosen.
    """
    if (settled := _without_machine(job, market, now, params)) is not None:
        return settled
    pressure = measure_pressure(job, now, params)
    status = _pressure_note(job, pressure, params)
    settled = _at_limit(job, status, market, now, params) or _under_way(job, status, pressure, market, now, params)
    return settled or _choose(job, status, pressure, market, now, params)


def _without_machine(job: Job, market: Market, now: datetime, params: Params) -> Decision | None:
    """Of a job that is over, parked, or not to begin yet."""
    if job.status is JobStatus.STOPPING:
        parked = SetStatus(JobStatus.PARKED, job.reason)
        return Decision(_park(job, parked, now, params), (Note("stop", (("reason", job.reason),)),))
    if not job.status.wants_capacity:
        return _over(job, market, now, params)
    if job.waits_for_jobs:
        return Decision((), (Note("after", (("jobs", len(waited_for(job.spec.after))),)),))
    if (in_vain := never_starts(job, params)) is not None:
        failed = SetStatus(JobStatus.FAILED, Reason.NEVER_STARTED, in_vain.numbers)
        return Decision((*_release_all(job, Reason.NEVER_STARTED), failed), (in_vain,))
    return None


def _over(job: Job, market: Market, now: datetime, params: Params) -> Decision:
    note = Note("over", (("status", job.status), ("reason", job.reason)))
    room = goes_on(job, market, now, params)
    if room is not None:
        return Decision((SetStatus(JobStatus.PENDING, Reason.ROOM_AGAIN, room.numbers),), (note, room))
    held = hold(job, market, now, params) or prove(job, market, now, params)
    if held is None:
        return Decision(_release_all(job, job.reason), (note,))
    others = (action for action in _release_all(job, job.reason) if job.main is None or action.lease_id != job.main.id)
    return Decision((*others, *held[0]), (note, *held[1]))


def _at_limit(job: Job, status: Note, market: Market, now: datetime, params: Params) -> Decision | None:
    """What no money, or no time of its own, is left for."""
    left = budget.left(job, params)
    if left is not None and left <= ZERO:
        notes = budget_notes(job, next_reserve(job, market, now, params), params)
        if (waits := awaits_bill(job, market, now, params)) is not None:
            return Decision((), (status, *notes, waits))
        return Decision(_park(job, end_unpaid(job, notes), now, params), (status, *notes))
    over = market.allowance.exhausted
    if over is not None:
        allowance = limit_numbers(market.allowance)
        at_limit = SetStatus(JobStatus.PARKED, over, allowance)
        if (waits := awaits_bill(job, market, now, params)) is not None:
            return Decision((), (status, Note("limits", allowance), waits))
        return Decision(_park(job, at_limit, now, params), (status, Note("limits", allowance)))
    if used_up := find_used_up(job, market):
        return _leave_uncertified(job, used_up, status, market, now, params)
    if _runs_too_long(job, now):
        return Decision(_park(job, SetStatus(JobStatus.FAILED, Reason.OVER_DURATION), now, params), (status,))
    return None


def _under_way(
    job: Job, status: Note, pressure: Pressure, market: Market, now: datetime, params: Params
) -> Decision | None:
    """What continues, or is waited for, regardless of the offers."""
    if job.main is not None and _may_run_again(job.main, now, params):
        return Decision((RunAgain(job.main.id, Reason.RETRY),), (status,))
    if job.next is not None:
        return Decision(continue_move(job, market, now, params), (status,))
    if job.main is None and market.outlook.is_learning and pressure.verdict is Verdict.FINE:
        return Decision((), (status, *_recorded_notes(market)))
    if (kill := has_no_more_memory(job, market, now)) is not None:
        numbers = (("peak_gb", kill.peak_gb), ("limit_gb", kill.limit_gb), ("wanted_gb", job.spec.host.ram_gb))
        return Decision((SetStatus(JobStatus.FAILED, Reason.OUT_OF_MEMORY, numbers),), (status,))
    if (limited := _waits_for_registry(job, now)) is not None:
        return Decision((), (status, limited))
    return None


def _choose(job: Job, status: Note, pressure: Pressure, market: Market, now: datetime, params: Params) -> Decision:
    """Among its machine and all offers that fit."""
    candidates = rank(job, market, Eligibility(job, market, now, params).holds, params)
    situation = _with_payable(keep_within_rooms(Situation(job, market, now, params, pressure, candidates)))
    actions, why = _for_main(situation)
    actions = tuple(_in_its_place(situation, action) for action in actions if may_raise(job, action, market, params))
    if job.main is None and not actions:
        why = (*why, *wait_notes(job, market, now, params))
    notes = (*_recorded_notes(market), *_no_spot_notes(market), *_lost_bid_notes(market, now, params))
    return Decision(actions, (status, *why, *notes))


def _runs_too_long(job: Job, now: datetime) -> bool:
    """Whether the command, or the setup before it, has run on its machine for longer than the job file lets it; also
    while that saves."""
    main, most = job.main, job.spec.max_duration
    if most is None or main is None or main.agent.exit_code is not None or main.agent.working_since is None:
        return False
    stopped_at = main.orders.stop_ordered_at if main.orders.role is Role.SAVE_AND_STOP else None
    is_at_it = stopped_at is not None or main.agent.state in COMMANDS
    return is_at_it and (stopped_at or now) - main.agent.working_since >= most


def _waits_for_registry(job: Job, now: datetime) -> Note | None:
    """None: it has a machine, or may rent one."""
    until = next_start_at(job) if job.main is None else None
    if until is None or now >= until:
        return None
    return Note("pull_limit", (("for_s", round((until - now).total_seconds())),))


def _leave_uncertified(
    job: Job, used_up: tuple[Lease, ...], status: Note, market: Market, now: datetime, params: Params
) -> Decision:
    """Its machines where the allowance is used up go; its bill may show first that there is some left."""
    if (waits := awaits_bill(job, market, now, params)) is not None:
        return Decision((), (status, waits))
    actions = (give_back(lease, is_saved=was_saved(job, lease, now, params)) for lease in used_up)
    rooms = {lease.provider: market.room_of(job, lease) for lease in used_up}
    notes = (room_note(name, room) for name, room in sorted(rooms.items()) if room is not None)
    return Decision(tuple(action for each in actions for action in each), (status, *notes))


def _recorded_notes(market: Market) -> tuple[Note, ...]:
    """What bids come from: learnt from so much record, or from numbers that are shipped."""
    outlook = market.outlook
    if outlook.recorded_h is None and outlook.bidders is None and not outlook.is_learning:
        return ()
    hours = None if outlook.recorded_h is None else round(outlook.recorded_h)
    is_learnt = int(outlook.bidders is not None)
    return (Note("floors", (("recorded_h", hours), ("learnt", is_learnt), ("learning", int(outlook.is_learning)))),)


def _no_spot_notes(market: Market) -> tuple[Note, ...]:
    """Where no market has spot: what each of them says of it."""
    if market.may_have_spot:
        return ()
    return tuple(
        Note("no_spot", (("provider", name), ("found", view.capabilities.spot_note or None)))
        for name, view in sorted(market.providers.items())
    )


def _for_main(situation: Situation) -> Answer:
    job, now, params = situation.job, situation.now, situation.params
    main = job.main
    if main is None:
        is_payable = any(is_affordable(job, choice, params) for choice in situation.candidates)
        if is_payable and is_auctioned(situation):
            return by_auction(situation)
        return _acquire(situation)
    if main.instance_id is None and main.agent.exit_code is None:
        return (), ()
    over = _why_over(job, main, now, params)
    if over is not None:
        return (Release(main.id, over),), ()
    if main.observed.offline_since is not None:
        return (), ()
    able = situation.market.able(main.provider)
    if cannot_boot_again(main, able) and main.observed.pause_cause is not Reason.CONSOLE:
        return (Release(main.id, Reason.STUCK_LOADING),), ()
    if main.state is LeaseState.PAUSED:
        return _while_paused(situation, main)
    given_up = _why_given_up(job, main, situation.market, now, params)
    if given_up is not None:
        return (Release(main.id, given_up),), unfit_notes(job, main)
    ending = None if _is_loading(main) else _ending(job, main, now, params)
    if ending is not None:
        return ending, ()
    return leave_slow(situation, main) or keep_by_raise(situation, main) or _while_held(situation, main)


def _while_paused(situation: Situation, main: Lease) -> Answer:
    """Where no bidder took it, the rule answers."""
    has_lost = main.observed.pause_cause is Reason.OUTBID and (main.observed.price_to_win is None or is_beaten(main))
    return by_auction(situation) if has_lost and is_auctioned(situation) else decide_paused(situation, main)


def _was_killed_for_memory(job: Job, main: Lease) -> bool:
    kill = read_memory_kill(job)
    return kill is not None and kill.lease_id == main.id


def _why_over(job: Job, main: Lease, now: datetime, params: Params) -> Reason | None:
    """Its run ended, its life did, or its host is lost."""
    if main.agent.exit_code is not None:
        if main.agent.is_blamed:
            return Reason.BAD_MACHINE
        return Reason.OUT_OF_MEMORY if _was_killed_for_memory(job, main) else Reason.RETRY
    if now >= main.not_after:
        return Reason.EXPIRING
    offline_since = main.observed.offline_since
    grace = timedelta(seconds=params.loading.offline_grace_s)
    return Reason.HOST_LOST if offline_since is not None and now - offline_since >= grace else None


def _may_run_again(main: Lease, now: datetime, params: Params) -> bool:
    """Whether its run has failed, and another may do better there: not if the host failed, or the command did twice."""
    agent = main.agent
    if agent.exit_code is None or agent.failed_by_host or not agent.can_run_again:
        return False
    is_held = main.state is LeaseState.ACTIVE and main.observed.offline_since is None and main.orders.role is Role.RUN
    is_well = is_held and now < last_save(main, params) and not is_given_up(main, now, params)
    return is_well and agent.failures < RUNS_PER_MACHINE


def _is_loading(main: Lease) -> bool:
    """Its agent has not spoken since it was rented, or woken."""
    return main.observed.running_since is None or not main.agent.state


def _why_given_up(job: Job, main: Lease, market: Market, now: datetime, params: Params) -> Reason | None:
    """It loads, is silent or prepares for too long, is where others failed, or lacks what was rented."""
    if is_left_at_once(job, main, market, params):
        return Reason.FAILED_BEFORE
    is_loading = _is_loading(main)
    if is_loading and loads_too_long(job, main, market, now, params):
        return Reason.STUCK_LOADING
    if main.observed.running_since is not None and is_given_up(main, now, params):
        return Reason.AGENT_SILENT
    is_to_run = not is_loading and main.orders.role is Role.RUN
    if is_to_run and is_unfit(job, main, now):
        return Reason.HOST_UNFIT
    if is_to_run and prepares_too_long(main, now, params):
        return Reason.STUCK_LOADING
    return None


def _ending(job: Job, main: Lease, now: datetime, params: Params) -> tuple[Action, ...] | None:
    """What a machine at the end of its life, or ordered to stop, does next; None for one that goes on."""
    expires = last_save(main, params)
    if main.orders.role is Role.RUN:
        return (SaveAndStop(main.id, Reason.EXPIRING),) if now >= expires else None
    if main.orders.role is not Role.SAVE_AND_STOP:
        return None
    # Its new home was lost, or the budget grew, after it was ordered to stop; a stopped run does not go on.
    reason = Reason.EXPIRING if now >= expires else Reason.MOVING
    return (Release(main.id, reason),) if was_saved(job, main, now, params) else ()


def _in_its_place(situation: Situation, action: Action) -> Action:
    """For want of room beside the machine that works, nothing that the deadline asks for is given up: that one goes.

    Nor is what takes the place of a slow one.
    Not where there will be room soon, or where the guard would refuse even then.
    """
    if not isinstance(action, Acquire) or action.slot is not Slot.NEXT or action.reason not in _WORTH_ITS_PLACE:
        return action
    job, room, params = situation.job, situation.market.allowance, situation.params
    main = job.main
    assert main is not None, "a next machine implies a main one"
    more = action.bid + action.offer.storage_rate(job.spec.disk_gb)
    hourly_caps = _left_per_hour(job, room)
    fits_caps = all(more <= left for left in hourly_caps)
    may_rent_more = room.instances is None or room.instances > 0
    is_one_leaving = any(not lease.is_wanted and not lease.is_over for lease in job.leases)
    if (fits_caps and may_rent_more) or is_one_leaving:
        return action
    needed = budget.start_reserve(job, action.offer, action.bid, params)
    is_over_hourly = any(more > left + main.burn_upper for left in hourly_caps)
    is_over_caps = any(cap is not None and cap < needed for cap in (room.day, room.month, room.purse))
    if is_over_hourly or is_over_caps:
        return action
    return SaveAndStop(main.id, action.reason) if is_at_work(main) else Release(main.id, action.reason)


def _left_per_hour(job: Job, room: Allowance) -> list[Decimal]:
    """$/h that may burn on top of what does, by the account's cap and by the job's, where there is one."""
    left = []
    if room.hourly is not None:
        left.append(room.hourly)
    if job.spec.max_rate is not None:
        left.append(job.spec.max_rate - budget.burn(job.leases))
    return left


def _with_payable(situation: Situation) -> Situation:
    """With those candidates only that the account and the job's budget can pay the start of: the cheapest to the end
    may be the dearest to begin with.

    Where neither can pay any, with all: the guard says what is missing.
    """
    job, candidates, params = situation.job, situation.candidates, situation.params
    credit = {name: view.credit for name, view in situation.market.providers.items() if view.credit is not None}
    left = budget.left(job, params)
    if not credit and left is None:
        return situation
    unlimited = Decimal("inf")
    paid = candidates.where(lambda c: credit.get(c.offer.provider, unlimited) >= reserve(job, c, params))
    if left is not None:
        paid = paid.where(lambda c: reserve(job, c, params) <= left) or paid
    return replace(situation, candidates=paid) if paid else situation


def _acquire(situation: Situation) -> Answer:
    job, candidates, params = situation.job, situation.candidates, situation.params
    if not candidates:
        return (), ()
    possible = price_options(situation)
    chosen, reason = _cheapest(possible, params)
    if chosen is not None and chosen.choice is not None:
        choice = chosen.choice
        take = Acquire(Slot.MAIN, choice.offer, choice.capacity_type, choice.bid, reason)
        return (take,), possible.notes(chosen, "small_saving")
    if any(is_affordable(job, choice, params) for choice in candidates):
        return (), possible.notes(possible.idle)
    least_reserve = min(reserve(job, choice, params) for choice in candidates)
    notes = budget_notes(job, least_reserve, params)
    return (end_unpaid(job, notes),), (*possible.notes(None), *notes)


def _cheapest(possible: Options, params: Params) -> tuple[Option | None, Reason]:
    """From nothing: the cheapest option that is open; where the deadline closes all, on-demand or else anything."""

    def compare(option: Option) -> float:
        """Among equal options, prefer the one that works: waiting must be worth something."""
        cost = option.cost or 0.0
        return cost * (1 + params.waiting.idle_margin) if option is possible.idle else cost

    priced = [option for option in possible if option.is_open and option.cost is not None]
    if priced:
        chosen = min(priced, key=compare)
        presses = any(option.refused == "deadline" for option in possible)
        is_for_deadline = presses and chosen is possible.on_demand
        return chosen, Reason.DEADLINE if is_for_deadline else Reason.CHEAPEST
    # Late is worse than risky.
    for option in (possible.on_demand, possible.spot):
        if option is not None and option.refused in ("", "deadline"):
            return option, Reason.DEADLINE
    return None, Reason.DEADLINE


def _while_held(situation: Situation, main: Lease) -> Answer:
    if is_auctioned(situation):
        return by_auction(situation)
    possible = price_options(situation)
    move, reason = _move(situation, main, possible)
    because = _why_stay(situation, main, possible)
    if move is None or move.choice is None:
        return (), possible.notes(possible.idle, because)
    choice = move.choice
    return (Acquire(Slot.NEXT, choice.offer, choice.capacity_type, choice.bid, reason),), possible.notes(move, because)


def _move(situation: Situation, main: Lease, possible: Options) -> tuple[Option | None, Reason]:
    """The option for which a held machine is left, if it is, and why."""
    if possible.idle.refused:
        on_demand = possible.on_demand
        return on_demand if on_demand is not None and on_demand.is_open else None, Reason.DEADLINE
    if is_at_work(main) and _has_stayed(main, situation.now, situation.params):
        return _better(situation, main, possible), Reason.CHEAPER_ELSEWHERE
    return None, Reason.CHEAPER_ELSEWHERE


def _why_stay(situation: Situation, main: Lease, possible: Options) -> str:
    """Why a cheaper option than the one that is taken is not."""
    if possible.idle.refused:
        return "deadline"
    if not is_at_work(main):
        return "not_ready"
    if not _has_stayed(main, situation.now, situation.params):
        return "just_started"
    if possible.idle.cost is None or situation.job.remaining_work is None:
        return "no_estimate"
    return "small_saving" if _is_calm(situation.pressure) else "little_slack"


def _is_calm(pressure: Pressure) -> bool:
    return pressure.slack is None or pressure.slack >= 2 * pressure.one_more_loss


def _has_stayed(main: Lease, now: datetime, params: Params) -> bool:
    """Whether it has run for so long that it may be left for a price."""
    least = timedelta(seconds=params.moves.least_stay_s)
    return main.observed.running_since is not None and now - main.observed.running_since >= least


def _better(situation: Situation, main: Lease, possible: Options) -> Option | None:
    """The cheapest option that saves enough to leave a machine that works; None to stay."""
    stay = possible.idle.cost
    if stay is None or situation.job.remaining_work is None:
        return None
    is_calm = _is_calm(situation.pressure)
    enough = stay * (1 - float(situation.params.moves.least_saving))
    best, least = None, inf
    for option in (possible.spot, possible.on_demand):
        if option is None or option.choice is None or option.cost is None or not option.is_open:
            continue
        # The table has weighed a change of capacity type against the deadline; the rest are moves for price alone.
        is_weighed = possible.by_table and option.choice.capacity_type is not main.capacity_type
        saves_enough = option.cost < stay if is_weighed else option.cost <= enough
        may_move = is_weighed or is_calm
        if saves_enough and may_move and option.cost < least:
            best, least = option, option.cost
    return best


def _park(job: Job, status: SetStatus, now: datetime, params: Params) -> tuple[Action, ...]:
    """Save, then stop paying: never a destroy of unsaved work while the money for the save was set aside."""
    main = job.main
    if main is not None:
        is_running = main.observed.running_since is not None and main.instance_id is not None
        if is_running and main.orders.role is Role.RUN:
            return (SaveAndStop(main.id, status.reason), *_releases(job, Slot.NEXT, status.reason))
        if main.orders.role is Role.SAVE_AND_STOP and not was_saved(job, main, now, params):
            return ()
    return (*_release_all(job, status.reason), status)


def _release_all(job: Job, reason: Reason) -> tuple[Release, ...]:
    """Every lease that is wanted; one whose create is not yet resolved is ordered to leave, once."""
    return tuple(
        Release(lease.id, reason)
        for lease in job.leases
        if lease.is_wanted and (lease.instance_id is not None or lease.orders.role is not Role.LEAVE)
    )


def _releases(job: Job, slot: Slot, reason: Reason) -> tuple[Action, ...]:
    lease = job.lease_in(slot)
    return (Release(lease.id, reason),) if lease is not None and lease.instance_id is not None else ()


def _lost_bid_notes(market: Market, now: datetime, params: Params) -> tuple[Note, ...]:
    """The machines whose floor is taken to be higher than the market says, those first that hold longest."""
    lost = sorted(market.lost_bids, key=lambda each: each.until(params.lost_bids), reverse=True)
    return tuple(
        Note(
            "lost_bid",
            (
                ("provider", each.provider),
                ("machine_id", each.machine_id),
                ("bid", each.bid),
                ("times", each.times),
                ("for_s", round((each.until(params.lost_bids) - now).total_seconds())),
            ),
        )
        for each in lost[:MOST_LOST_NOTED]
    )


def _pressure_note(job: Job, pressure: Pressure, params: Params) -> Note:
    numbers: tuple[tuple[str, Number], ...] = (
        ("slack_s", None if pressure.slack is None else round(pressure.slack.total_seconds())),
        ("one_more_loss_s", round(pressure.one_more_loss.total_seconds())),
        ("verdict", pressure.verdict),
        ("committed", budget.sum_committed(job, params)),
        ("budget", job.spec.budget),
    )
    return Note("status", numbers)
