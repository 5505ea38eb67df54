"""The core of bidding (``pricing.auction.choice``) played by itself: no job, no market view, no guard around it."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf

from autopilot.domain.params import BidRules
from autopilot.pricing.auction.choice import AuctionedMachine, ChoiceNumbers, Do, HeldNow, OpenAuction, WorkLeft, choose
from autopilot.pricing.auction.first_step import first_step_s
from autopilot.pricing.auction.shadows import LossCosts
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.live import SEES_OUTBID_S
from autopilot_lab.backtest.looks import TUNABLE as SHADOW_NUMBERS
from autopilot_lab.backtest.looks import Looks
from autopilot_lab.backtest.promise import Promise
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, Params

CHOICE_NUMBERS = tuple(field.name for field in fields(ChoiceNumbers))
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
        self._limit = config.on_demand_price * (float(BidRules().ceiling_of_on_demand) if job.is_live else 1.0)
        self._looks = Looks(config, job, self._limit, params)
        self._promise = Promise(config, job)
        self._since_s = 0.0
        self._last: tuple[int | None, Choice] = (None, Choice.NONE)
        self._bid_on = 0.0
        """The floor on which the last bid was made."""

    def choose(self, view: BidView) -> Choice | Spot:
        held_s = self._promise.hold(view)
        if (view.machine, view.running) != self._last:
            if view.running is Choice.KEEP and self._last == (view.machine, Choice.SPOT) and self._bid_on:
                assert view.machine is not None
                self._looks.shadows.add_own(0.0, view.floors[view.machine] / self._bid_on)
            self._since_s, self._last = view.now_s, (view.machine, view.running)
        if self._looks.see(view) and view.running is Choice.SPOT:
            self._looks.shadows.add_own(self._config.tick_s / HOUR_S)
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
            bidders=self._looks.shadows.bidders,
            on_demand=self._config.on_demand_price,
            limit=self._limit,
            pays_bid=self._pays_bid,
        )
