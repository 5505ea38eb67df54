"""The core of bidding (``bidding.choice``) played by itself: no job, no market view, no guard around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import inf, isinf

from autopilot.domain.params import BidRules
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.live import SEES_OUTBID_S
from autopilot_lab.backtest.promise import weigh_left
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, Params
from autopilot_lab.bidding.choice import AuctionedMachine, ChoiceNumbers, Do, HeldNow, OpenAuction, WorkLeft, choose
from autopilot_lab.bidding.first_step import first_step_s
from autopilot_lab.bidding.shadows import MARKUPS, UNPAID_MARKUPS, FloorLook, LossCosts, Shadowing, Shadows

CHOICE_NUMBERS = tuple(field.name for field in fields(ChoiceNumbers))
SHADOW_NUMBERS = tuple(field.name for field in fields(Shadowing))
TUNABLE = (*CHOICE_NUMBERS, *SHADOW_NUMBERS)
"""Numbers of the core that may be set by name."""

_HELD = {
    Choice.NONE: HeldNow.NOTHING,
    Choice.KEEP: HeldNow.PAUSED,
    Choice.SPOT: HeldNow.RUNNING,
    Choice.ON_DEMAND: HeldNow.ON_DEMAND,
}


def reserve(config: BidConfig, job: BidJob, params: Params) -> BidChooser:
    """A guarantee, a bid and a reserve, by shadow bidders over the floors on record."""
    return _Player(config, job, params).choose


class _Player:
    def __init__(self, config: BidConfig, job: BidJob, params: Params) -> None:
        self._config, self._job = config, job
        self._numbers = replace(ChoiceNumbers(), **{name: params[name] for name in CHOICE_NUMBERS if name in params})
        self._pays_bid = job.pays == "bid"
        given = {name: params[name] for name in SHADOW_NUMBERS if name in params}
        how = replace(Shadowing(), **given)
        self._shadows = Shadows(how, MARKUPS if self._pays_bid else UNPAID_MARKUPS)
        self._limit = config.on_demand_price * (float(BidRules().ceiling_of_on_demand) if job.is_live else 1.0)
        self._fed = -1
        self._since_s = 0.0
        self._last: tuple[int | None, Choice] = (None, Choice.NONE)
        self._bid_on = 0.0
        """The floor on which the last bid was made."""

    def choose(self, view: BidView) -> Choice | Spot:
        view.work_left_s, view.safe_left_s, held_s = weigh_left(view, self._config, self._job)
        if (view.machine, view.running) != self._last:
            if view.running is Choice.KEEP and self._last == (view.machine, Choice.SPOT) and self._bid_on:
                assert view.machine is not None
                self._shadows.add_own(0.0, view.floors[view.machine] / self._bid_on)
            self._since_s, self._last = view.now_s, (view.machine, view.running)
        self._learn(view)
        chosen = choose(self._work(view, held_s), self._auction(view), self._numbers)
        return self._as_answer(chosen.do, view, chosen.machine, chosen.bid)

    def _as_answer(self, do: Do, view: BidView, machine: str, bid: float) -> Choice | Spot:
        if do is Do.ON_DEMAND or (do is Do.STAY and view.running is Choice.ON_DEMAND):
            return Choice.ON_DEMAND
        if do is Do.WAIT:
            return Choice.NONE if view.machine is None else Choice.KEEP
        if do is Do.STAY:
            assert view.machine is not None
            return Spot(view.machine, view.bid)
        number = self._config.machines.index(machine)
        self._bid_on = view.floors[number]
        return Spot(number, bid)

    def _work(self, view: BidView, held_s: float) -> WorkLeft:
        config = self._config
        left_s = view.ticks_left * config.tick_s - (view.now_s - view.tick * config.tick_s)
        work_s, unsaved_s = view.work_left_s, view.safe_left_s - view.work_left_s
        # Once the estimate is used up, half of what it may yet be is reckoned with.
        work_s = max(work_s, (work_s + held_s) / 2)
        return WorkLeft(
            left_h=left_s / HOUR_S,
            work_h=work_s / HOUR_S,
            held_h=(view.work_left_s + held_s - work_s) / HOUR_S,
            unsaved_h=unsaved_s / HOUR_S,
            first_step_h=first_step_s(config.migrate_s) / HOUR_S,
            costs=LossCosts(
                checkpoint_h=config.checkpoint_s / HOUR_S,
                again_h=(SEES_OUTBID_S + config.resume_s) / HOUR_S,
                start_h=config.migrate_s / HOUR_S,
            ),
            held=_HELD[view.running],
            machine="" if view.machine is None else config.machines[view.machine],
            bid=view.bid,
            since_h=(view.now_s - self._since_s) / HOUR_S,
            budget=inf if self._job.budget is None else self._job.budget - view.spent,
        )

    def _auction(self, view: BidView) -> OpenAuction:
        return OpenAuction(
            machines=[
                AuctionedMachine(name, floor)
                for name, floor in zip(self._config.machines, view.floors, strict=True)
                if floor < inf
            ],
            tallies=self._shadows.tallies,
            storm=self._shadows.storm,
            on_demand=self._config.on_demand_price,
            limit=self._limit,
            pays_bid=self._pays_bid,
        )

    def _learn(self, view: BidView) -> None:
        if self._fed < 0:
            rows = [view.history(number, view.ticks_seen) for number in range(len(view.floors))]
            for floors in zip(*rows, strict=True):
                self._look(floors, ())
        elif view.tick > self._fed:
            ours = () if view.machine is None else (self._config.machines[view.machine],)
            self._look(view.floors, ours)
            if view.running is Choice.SPOT:
                self._shadows.add_own(self._config.tick_s / HOUR_S)
        self._fed = view.tick

    def _look(self, floors: Sequence[float], ours: tuple[str, ...]) -> None:
        shown = {name: floor for name, floor in zip(self._config.machines, floors, strict=True) if not isinf(floor)}
        if shown:
            self._shadows.look(FloorLook(shown, self._config.tick_s / HOUR_S, self._limit, self._pays_bid, ours))
