"""Published and folk rules for machines with floors, as they are, or with the product's promise kept.

``promise=1``: on demand in time for an estimate that is as wrong as the product holds time for, and for a machine that
takes long to work; and no dollar beyond the budget. What such a rule costs more is the price of the promise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import inf, isinf

from autopilot.domain.params import BidRules
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.promise import weigh_left
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, Params, whole_ticks

NONE, SPOT, ON_DEMAND, KEEP, PARK = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.KEEP, Choice.PARK

MOVE_RATIO = 1.25
"""A machine is left for the cheapest one when its floor is that many times higher."""

NET_TICKS = 2
"""The deadline net keeps the tick that a pause costs and one more."""

HISTORY_S = 14 * 86400.0
"""How far back the fixed bid looks. This, and what a pause costs it, were inferred from its published figures."""

LIVE_CEILING = float(BidRules().ceiling_of_on_demand)
"""As live, rules keep below an on-demand renter as the policy does."""

SEEN_S = 600.0
"""Of the promise: from the moment that a machine does not work to the next create, all in all."""
SAFE_STOP_TICKS = 2
"""Of the promise: ticks on demand that the budget keeps."""

_Rule = Callable[[BidView], Choice | Spot]


def on_demand(_config: BidConfig, _job: BidJob, _params: Params) -> BidChooser:
    """Always on demand."""
    return lambda _view: ON_DEMAND


def floor_markup(config: BidConfig, job: BidJob, params: Params) -> BidChooser:
    """Bids the floor times ``markup`` in every tick, below the on-demand price."""
    rule = _marked_up(config, job, params["markup"])
    return (_promise if params.get("promise") else _guard)(config, job, rule)


def on_demand_bid(config: BidConfig, job: BidJob, _params: Params) -> BidChooser:
    """The folk rule of clearing-price markets: bid what on-demand costs."""
    return _guard(config, job, _bidding(config, config.on_demand_price))


def uniform_progress(config: BidConfig, job: BidJob, params: Params) -> BidChooser:
    """Uniform Progress (NSDI 2024) about when, floor times ``markup`` about how much."""
    spot = _marked_up(config, job, params["markup"])
    work_s, tick_s, round_trip_s = job.work_s, config.tick_s, 2 * config.migrate_s
    pace = work_s / job.deadline_s

    def rule(view: BidView) -> Choice | Spot:
        now_s = view.tick * tick_s
        done_s = work_s - view.work_left_s
        choice = spot(view)
        can_spot = type(choice) is Spot
        if view.running is ON_DEMAND:
            return choice if can_spot and done_s > (now_s + round_trip_s) * pace else ON_DEMAND
        return choice if can_spot or done_s >= now_s * pace else ON_DEMAND

    return _guard(config, job, rule)


def _marked_up(config: BidConfig, job: BidJob, markup: float) -> _Rule:
    limit = config.on_demand_price * (LIVE_CEILING if job.is_live else 1.0)

    def rule(view: BidView) -> Choice | Spot:
        machine = _machine(view, config)
        if _runs_unobserved(view) and machine == view.machine:
            return Spot(machine, view.bid)
        bid = view.floors[machine] * markup
        return Spot(machine, bid) if bid < limit * config.speed(machine) else NONE

    return rule


def _bidding(config: BidConfig, bid: float) -> _Rule:
    """One bid for all of the run."""

    def rule(view: BidView) -> Choice | Spot:
        machine = _machine(view, config)
        if view.floors[machine] <= bid or (_runs_unobserved(view) and machine == view.machine):
            return Spot(machine, bid)
        return NONE if view.machine is None else KEEP

    return rule


def _runs_unobserved(view: BidView) -> bool:
    """Whether the floor of the machine that runs is not shown: its bid is all that is known of it."""
    return view.running is SPOT and view.machine is not None and isinf(view.floors[view.machine])


def _machine(view: BidView, config: BidConfig) -> int:
    """The held machine, unless another is far cheaper for the same work."""
    floors = (
        view.floors
        if not config.gpus
        else [floor / gpu.speed for floor, gpu in zip(view.floors, config.gpus, strict=True)]
    )
    cheapest = floors.index(min(floors))
    held = view.machine
    if held is None:
        return cheapest
    floor = view.bid / config.speed(held) if _runs_unobserved(view) else floors[held]
    return cheapest if floor > MOVE_RATIO * floors[cheapest] else held


def _guard(config: BidConfig, job: BidJob, rule: _Rule) -> BidChooser:
    """A deadline net: on demand in time for the work since the last checkpoint to be lost once more."""
    tick_s, migrate_s = config.tick_s, config.migrate_s
    if job.deadline_s == inf:
        return rule

    def choose(view: BidView) -> Choice | Spot:
        left = view.ticks_left
        if whole_ticks(view.safe_left_s + migrate_s, tick_s) + NET_TICKS >= left:
            return ON_DEMAND
        if view.running is not SPOT and whole_ticks(view.work_left_s + 2 * migrate_s, tick_s) >= left:
            return ON_DEMAND
        return rule(view)

    return choose


def _promise(config: BidConfig, job: BidJob, rule: _Rule) -> BidChooser:
    """The same with the time that the product holds, and a budget that is never exceeded."""
    tick_s, tick_h = config.tick_s, config.tick_s / HOUR_S
    start_s = config.migrate_s + SEEN_S
    rate = config.on_demand_price + config.storage_rate

    def is_pressed(view: BidView) -> bool:
        _, left_s, held_s = weigh_left(view, config, job)
        time_s = view.ticks_left * tick_s - (view.now_s - view.tick * tick_s)
        # Back from on demand only where there is time for another start there.
        return left_s + held_s + start_s * (2 if view.running is ON_DEMAND else 1) >= time_s

    def choose(view: BidView) -> Choice | Spot:
        left = inf if job.budget is None else job.budget - view.spent
        if left < SAFE_STOP_TICKS * tick_h * rate:
            return PARK
        if job.deadline_s < inf and is_pressed(view):
            _, left_s, _ = weigh_left(view, config, job)
            if (left_s + config.migrate_s) / HOUR_S * rate < left:
                return ON_DEMAND
        return rule(view)

    return choose


def fixed_bid(config: BidConfig, job: BidJob, _params: Params) -> BidChooser:
    """One bid on one machine for all of the run: the cheapest that would have done in time at the prices before it.

    Zheng et al., How to Bid the Cloud, SIGCOMM 2015, for persistent requests. Where it would cost no less than on
    demand, or none of the machines shown would do in time, on demand it is. A machine is asked for when its floor is
    within the bid, and kept from then on.
    """
    ticks = whole_ticks(HISTORY_S, config.tick_s)
    on_demand_cost = (job.work_s + config.migrate_s) / HOUR_S * config.on_demand_price
    plan: list[_Rule] = []

    def rule(view: BidView) -> Choice | Spot:
        if not plan:
            costs = [
                (cost, machine, bid)
                for machine, floor in enumerate(view.floors)
                if floor < inf
                for cost, bid in _bid_costs([seen for seen in view.history(machine, ticks) if seen < inf], config, job)
            ]
            cost, machine, bid = min(costs, default=(inf, 0, 0.0))
            plan.append(_hold_bid(machine, bid) if cost < on_demand_cost else lambda _view: ON_DEMAND)
        return plan[0](view)

    return _guard(config, job, rule)


def _bid_costs(prices: Sequence[float], config: BidConfig, job: BidJob) -> Iterator[tuple[float, float]]:
    """Past prices that as a bid would do the job in time, were the past to come again: what it costs, and the bid."""
    ranked = sorted(prices)
    sums = list(accumulate(ranked))
    rises = [(before, after) for before, after in pairwise(prices) if before < after]
    lows, highs = sorted(low for low, _ in rises), sorted(high for _, high in rises)
    lost_s = config.resume_s + config.checkpoint_s / 2
    time_s = job.deadline_s - config.migrate_s - config.resume_s
    for bid in sorted(set(ranked)):
        if bid >= config.on_demand_price:
            break
        below = bisect_right(ranked, bid)
        share = below / len(ranked)
        pauses_per_s = (bisect_right(lows, bid) - bisect_right(highs, bid)) / len(ranked) / config.tick_s
        running_s = job.work_s + pauses_per_s * job.work_s / share * lost_s
        if running_s / share <= time_s:
            yield running_s / HOUR_S * (bid if job.pays == "bid" else sums[below - 1] / below), bid


def _hold_bid(machine: int, bid: float) -> _Rule:
    def rule(view: BidView) -> Choice | Spot:
        return NONE if view.machine is None and view.floors[machine] > bid else Spot(machine, bid)

    return rule
