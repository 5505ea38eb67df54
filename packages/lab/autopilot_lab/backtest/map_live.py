"""The product's policy on a suite that is played as live: the daemon's own numbers, shapes, beliefs and rests.

What the engine works out beside the tick is worked out here by the same functions, at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta

from autopilot.domain.actions import Release, SaveAndStop
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.offer import Offer
from autopilot.domain.outlook import Belief, Outlook, PhaseModel, Shape
from autopilot.domain.params import Params, Timing, TrafficSizes
from autopilot.engine.auctions import LEAST_RECORDED, kind_of
from autopilot.engine.calls import AVOID_AFTER_RELEASE
from autopilot.policy.eligibility import eligible
from autopilot.pricing.availability.phases import first_belief, next_belief
from autopilot.pricing.availability.prior import PHASES
from autopilot.pricing.availability.shape import shape_of, still_serves
from autopilot.pricing.rule.bidding import first_bid
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.choices import Spot as SpotAt
from autopilot_lab.backtest.map_bids import BID_UNIT, ON_DEMAND_MACHINE, BidMapping, views_of
from autopilot_lab.backtest.session import ORIGIN
from autopilot_lab.backtest.suite import BidConfig, BidJob
from autopilot_lab.backtest.suite import Params as Given


def start_on_bids(config: BidConfig, job: BidJob, given: Given, model: PhaseModel = PHASES) -> BidChooser:
    if job.is_live:
        return LiveMapping(config, job, given, model).choose
    return BidMapping(config, job, given).choose


class LiveMapping(BidMapping):
    def __init__(self, config: BidConfig, job: BidJob, given: Given, phases: PhaseModel) -> None:
        super().__init__(config, job, given)
        self._phases = phases
        self._belief: Belief = ()
        self._believed_tick = -1
        """When the belief was brought up to date: once a tick, for what lies between two looks is dear to work out."""
        self._shape_of_availability: Shape | None = None
        self._is_known = False
        self._avoided: dict[str, datetime] = {}

    @property
    def job(self) -> Job:
        return self._session.job

    def of_next(self, job: BidJob, begun_s: float, left_by: LiveMapping | None = None) -> LiveMapping:
        """Of another task of the same array, which begins then: what has been learnt of the market holds for it.

        ``left_by``: of the task that has ended, and whose machine it takes over.
        """
        other = copy(self)
        other._job, other._avoided = job, dict(self._avoided)
        other._session = self._begin(job, ORIGIN + timedelta(seconds=begun_s))
        if left_by is not None:
            other._session.take_over(left_by._session)
        return other

    def market_of_all(self, view: BidView, most: int) -> Market:
        """What any task could be rented on: the machines that are shown, and on demand as many as can be of use."""
        again = (replace(self._always, machine_id=f"{ON_DEMAND_MACHINE}-{n}") for n in range(1, most))
        now = ORIGIN + timedelta(seconds=view.now_s)
        return Market(views_of(self._job.pays, shows_held_floors=False), (*self._offers(view), *again), now)

    def _params(self) -> Params:
        """The daemon's; how long things take is the suite's."""
        config, own = self._config, Params()
        return replace(
            own,
            timing=Timing(own.timing.tick_lag_s, config.migrate_s, config.migrate_s, config.resume_s),
            traffic=TrafficSizes(image_gb=ZERO, upload_gb=ZERO),
            bids=replace(own.bids, unit=BID_UNIT, least=BID_UNIT),
        )

    def _market(self, view: BidView, now: datetime) -> Market:
        job, params = self._session.job, self._session.params
        views = views_of(self._job.pays, shows_held_floors=False)
        market = Market(views, self._offers_now(view, now), now)
        fitting = eligible(job, market, now, params)
        candidates = price_candidates(job, market, fitting, params)
        self._update_belief(view, fitting)
        self._looks.see(view)
        is_recorded = view.ticks_seen * self._config.tick_s >= LEAST_RECORDED.total_seconds()
        is_known = is_recorded and kind_of(job, candidates, market, params) is not None
        wanted = shape_of(job, candidates, market.outlook, now, self._phases, params)
        if wanted is not None:
            known = self._shape_of_availability
            if known is None or not still_serves(known, wanted):
                self._shape_of_availability = wanted
        outlook = Outlook(
            shape=self._shape_of_availability,
            belief=self._belief,
            bidders=self._looks.shadows.bidders if is_known or self._is_known else None,
        )
        self._is_known = outlook.bidders is not None
        return replace(market, outlook=outlook)

    def _offers_now(self, view: BidView, now: datetime) -> tuple[Offer, ...]:
        """Without machines that the job keeps away from, and without the one that it holds."""
        held = None if view.machine is None else self._config.machines[view.machine]
        self._avoided = {machine: until for machine, until in self._avoided.items() if until > now}
        return tuple(
            each for each in self._offers(view) if each.machine_id not in self._avoided and each.machine_id != held
        )

    def _update_belief(self, view: BidView, fitting: Sequence[Offer]) -> None:
        if view.tick == self._believed_tick:
            return
        spec, params = self._session.job.spec, self._session.params
        is_on = view.running is Choice.SPOT or any(first_bid(spec, each, params) is not None for each in fitting)
        if self._belief:
            self._belief = next_belief(self._phases, self._belief, self._config.tick_s, is_on)
        else:
            self._belief = first_belief(self._phases, is_on)
        self._believed_tick = view.tick

    def _after_leaving(self, view: BidView, market: Market, now: datetime) -> Choice | SpotAt:
        """The daemon decides again within seconds, and not a tick of the suite later."""
        return self._carry_out(view, market, now, Choice.NONE)

    def _left(self, action: Release | SaveAndStop, now: datetime) -> None:
        main = self._session.job.main
        rest = AVOID_AFTER_RELEASE.get(action.reason)
        if main is not None and rest is not None:
            self._avoided[main.machine_id] = now + rest
