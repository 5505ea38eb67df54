"""Published and folk rules for machines with floors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isinf

from autopilot.backtest.bids import BidChooser, BidView
from autopilot.backtest.choices import Choice, Spot
from autopilot.backtest.suite import BidJob, BidTerms, Params, whole_ticks

NONE, SPOT, ON_DEMAND, KEEP = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.KEEP

MOVE_RATIO = 1.25
"""A machine is left for the cheapest one when its floor is that many times higher."""

NET_TICKS = 2
"""The deadline net keeps the tick that a pause costs and one more."""

HISTORY_S = 4 * 86400.0
"""How far back the fixed bid looks: older prices say little of a market that changes."""

_Rule = Callable[[BidView], Choice | Spot]


def on_demand(_terms: BidTerms, _job: BidJob, _params: Params) -> BidChooser:
    """Always on demand."""
    return lambda _view: ON_DEMAND


def floor_markup(terms: BidTerms, job: BidJob, params: Params) -> BidChooser:
    """Bids the floor times ``markup`` in every tick, below the on-demand price."""
    return _guarded(terms, job, _marked_up(terms, params["markup"]))


def on_demand_bid(terms: BidTerms, job: BidJob, _params: Params) -> BidChooser:
    """The folk rule of clearing-price markets: bid what on-demand costs."""
    return _guarded(terms, job, _bidding(terms.on_demand_rate))


def uniform_progress(terms: BidTerms, job: BidJob, params: Params) -> BidChooser:
    """Uniform Progress (NSDI 2024) about when, floor times ``markup`` about how much."""
    spot = _marked_up(terms, params["markup"])
    work_s, tick_s, round_trip_s = job.work_s, terms.tick_s, 2 * terms.migrate_s
    pace = work_s / job.deadline_s

    def rule(view: BidView) -> Choice | Spot:
        now_s = view.tick * tick_s
        done_s = work_s - view.work_left_s
        choice = spot(view)
        can_spot = type(choice) is Spot
        if view.running is ON_DEMAND:
            return choice if can_spot and done_s > (now_s + round_trip_s) * pace else ON_DEMAND
        return choice if can_spot or done_s >= now_s * pace else ON_DEMAND

    return _guarded(terms, job, rule)


def _marked_up(terms: BidTerms, markup: float) -> _Rule:
    limit = terms.on_demand_rate

    def rule(view: BidView) -> Choice | Spot:
        machine = _machine(view)
        if _runs_unseen(view) and machine == view.machine:
            return Spot(machine, view.bid)
        bid = view.floors[machine] * markup
        return Spot(machine, bid) if bid < limit else NONE

    return rule


def _bidding(bid: float) -> _Rule:
    """One bid for all of the run."""

    def rule(view: BidView) -> Choice | Spot:
        machine = _machine(view)
        if view.floors[machine] <= bid or (_runs_unseen(view) and machine == view.machine):
            return Spot(machine, bid)
        return NONE if view.machine is None else KEEP

    return rule


def _runs_unseen(view: BidView) -> bool:
    """Whether the floor of the machine that runs is not shown: its bid is all that is known of it."""
    return view.running is SPOT and view.machine is not None and isinf(view.floors[view.machine])


def _machine(view: BidView) -> int:
    """The held machine, unless another is far cheaper."""
    floors = view.floors
    cheapest = floors.index(min(floors))
    held = view.machine
    if held is None:
        return cheapest
    floor = view.bid if _runs_unseen(view) else floors[held]
    return cheapest if floor > MOVE_RATIO * floors[cheapest] else held


def _guarded(terms: BidTerms, job: BidJob, rule: _Rule) -> BidChooser:
    """A deadline net: on demand in time for the work since the last checkpoint to be lost once more."""
    tick_s, migrate_s = terms.tick_s, terms.migrate_s

    def choose(view: BidView) -> Choice | Spot:
        left = view.ticks_left
        if whole_ticks(view.safe_left_s + migrate_s, tick_s) + NET_TICKS >= left:
            return ON_DEMAND
        if view.running is not SPOT and whole_ticks(view.work_left_s + 2 * migrate_s, tick_s) >= left:
            return ON_DEMAND
        return rule(view)

    return choose


def fixed_bid(terms: BidTerms, job: BidJob, _params: Params) -> BidChooser:
    """One bid on one machine for all of the run: what would have run without a pause at these prices.

    Zheng et al., How to Bid the Cloud, SIGCOMM 2015, for one-time requests: the bid is the quantile of past floors
    at which, over as many ticks as the deadline is away, less than one is expected to stand above it; the machine is
    the one where that is cheapest. Where that is no cheaper than on demand, on demand it is.
    """
    quantile = 1 - terms.tick_s / job.deadline_s
    ticks = whole_ticks(HISTORY_S, terms.tick_s)
    plan: list[_Rule] = []

    def rule(view: BidView) -> Choice | Spot:
        if not plan:
            bids = [
                inf
                if isinf(floor)
                else _quantile([seen for seen in view.history(number, ticks) if seen < inf], quantile)
                for number, floor in enumerate(view.floors)
            ]
            bid = min(bids)
            plan.append(_fixed(bids.index(bid), bid) if bid < terms.on_demand_rate else (lambda _view: ON_DEMAND))
        return plan[0](view)

    return _guarded(terms, job, rule)


def _fixed(machine: int, bid: float) -> _Rule:
    def rule(view: BidView) -> Choice | Spot:
        if view.floors[machine] <= bid or _runs_unseen(view):
            return Spot(machine, bid)
        return NONE if view.machine is None else KEEP

    return rule


def _quantile(values: Sequence[float], quantile: float) -> float:
    ranked = sorted(values)
    return ranked[min(int(quantile * len(ranked)), len(ranked) - 1)]
