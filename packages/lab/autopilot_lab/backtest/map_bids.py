"""The product's policy on bid suites: a few machines whose floors move, on-demand beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isinf

from autopilot.domain.actions import Acquire, ChangeBid, Release, SaveAndStop, SetStatus
from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.choices import Spot as SpotAt
from autopilot_lab.backtest.looks import Looks
from autopilot_lab.backtest.session import (
    GB_MONTH,
    GPU,
    MARKET,
    ORIGIN,
    Session,
    offer,
    physics,
    price_of,
    with_given,
)
from autopilot_lab.backtest.suite import PAYS_BID, BidConfig, BidJob
from autopilot_lab.backtest.suite import Params as Given

ON_DEMAND_MACHINE = "on-demand"
BID_UNIT = Decimal("0.000001")
CEILING = Decimal("0.999")
"""On suites no on-demand renter displaces a bid: it needs only be the lower price."""


@lru_cache(maxsize=8)
def views_of(pays: str, *, shows_held_floors: bool) -> dict[str, ProviderView]:
    able = Capabilities(
        spot=True,
        on_demand=True,
        can_rebid=True,
        pauses_when_outbid=True,
        keeps_disk_when_stopped=True,
        reports_floor=True,
        bills_at_bid=pays == "bid",
        rebid_needs_stop=pays == "cap",
        shows_held_floors=shows_held_floors,
    )
    return {MARKET: ProviderView(able, known=True, credit=None)}


def sorted_models(config: BidConfig) -> tuple[str, ...]:
    """The models of a market that has several, that of on-demand machines first."""
    return tuple(gpu.name for gpu in sorted(set(config.gpus), key=lambda gpu: abs(gpu.speed - 1.0)))


class BidMapping:
    def __init__(self, config: BidConfig, job: BidJob, given: Given) -> None:
        if given.get(PAYS_BID):
            job = replace(job, pays="bid")
        self._config, self._job = config, job
        self._tick = timedelta(seconds=config.tick_s)
        self.params = with_given(self._params(), given)
        self._on_demand_price = price_of(config.on_demand_price)
        self._storage_rate = price_of(config.storage_rate)
        self._models = sorted_models(config)
        self._session = self._begin(job)
        first = self._models[0] if self._models else GPU
        self._always = offer(ON_DEMAND_MACHINE, None, self._on_demand_price, self._storage_rate, first)
        self._numbers = {machine: number for number, machine in enumerate(config.machines)}
        limit = config.on_demand_price * float(self.params.bids.ceiling_of_on_demand)
        self._looks = Looks(config, job, limit, given)

    def _begin(self, job: BidJob, begun_at: datetime = ORIGIN) -> Session:
        return Session(
            job,
            self.params,
            begun_at,
            self._models,
            disk_gb=GB_MONTH,
            max_bid=(self._on_demand_price * self.params.bids.ceiling_of_on_demand).quantize(BID_UNIT),
            checkpoint_interval=timedelta(seconds=self._config.checkpoint_s),
        )

    def _params(self) -> Params:
        config = self._config
        params = physics(self._job, config.tick_s, config.migrate_s)
        return replace(
            params,
            timing=replace(params.timing, resume_s=config.resume_s),
            bids=replace(params.bids, unit=BID_UNIT, ceiling_of_on_demand=CEILING),
        )

    def choose(self, view: BidView) -> Choice | SpotAt:
        now = ORIGIN + timedelta(seconds=view.now_s)
        session = self._session
        held = self._update_held(view, now)
        if held is not None:
            self._see(view, held, now)
        saved = timedelta(seconds=view.saved_s)
        saved_as = Checkpoint("run", "", 1, 1, 0, saved, 0, 1, now)
        session.set_progress(view.done_s, view.spent, saved_as, view.progress, view.recognised)
        answer: Choice | SpotAt = view.running
        if view.machine is not None:
            answer = SpotAt(view.machine, view.bid)
        return self._carry_out(view, self._market(view, now), now, answer)

    def _carry_out(self, view: BidView, market: Market, now: datetime, answer: Choice | SpotAt) -> Choice | SpotAt:
        """``answer``: what goes on where nothing is done."""
        session = self._session
        for action in session.decide(market, now):
            match action:
                case Acquire():
                    session.rent(action, now)
                    is_spot = action.capacity_type is CapacityType.SPOT
                    machine = action.offer.machine_id
                    answer = SpotAt(self._numbers[machine], float(action.bid)) if is_spot else Choice.ON_DEMAND
                case ChangeBid(_, bid):
                    assert view.machine is not None
                    session.rebid(action, now)
                    answer = SpotAt(view.machine, float(bid))
                case Release() | SaveAndStop(_, Reason.WAITING_FOR_PRICE):
                    # A planned stop loses no work on suites.
                    self._left(action, now)
                    session.lose(now)
                    return self._after_leaving(view, market, now)
                case SaveAndStop() | SetStatus():
                    return Choice.PARK
                case _:
                    raise TypeError(f"not on such a market: {action}")
        return answer

    def _market(self, view: BidView, now: datetime) -> Market:
        self._looks.see(view)
        views = views_of(self._job.pays, shows_held_floors=True)
        return Market(views, self._offers(view), now, outlook=Outlook(bidders=self._looks.shadows.bidders))

    def _after_leaving(self, _view: BidView, _market: Market, _now: datetime) -> Choice | SpotAt:
        """What is done in the same tick once a machine has been given up."""
        return Choice.NONE

    def _left(self, action: Release | SaveAndStop, now: datetime) -> None:
        """A machine is given up."""

    def _update_held(self, view: BidView, now: datetime) -> Lease | None:
        """What is held by the view; the job is brought to it where a move was refused."""
        session = self._session
        held = session.job.main
        name = ON_DEMAND_MACHINE if view.running is Choice.ON_DEMAND else ""
        if view.machine is not None:
            name = self._config.machines[view.machine]
        if held is None or held.machine_id == name:
            return held
        session.lose(now)
        return session.before if session.before is not None and session.before.machine_id == name else None

    def _see(self, view: BidView, held: Lease, now: datetime) -> None:
        if view.running is Choice.KEEP:
            if view.is_set_up and not held.agent.boot:
                held = replace(held, agent=replace(held.agent, boot=1))
            assert view.machine is not None
            floor = view.floors[view.machine]
            to_win = None if isinf(floor) else price_of(floor)
            stopped = InstanceStatus.STOPPED
            self._session.see(held, stopped, price_of(view.bid), AgentState.UNHEARD, now, price_to_win=to_win)
            return
        state = AgentState.SETTING_UP if view.pending_s > 0 else AgentState.RUNNING
        billed = self._on_demand_price
        if held.is_spot:
            assert view.machine is not None
            floor = view.floors[view.machine]
            billed = price_of(view.bid if self._job.pays == "bid" else min(view.bid, floor))
        self._session.see(held, InstanceStatus.RUNNING, billed, state, now, since=now - self._tick)

    def _offers(self, view: BidView) -> tuple[Offer, ...]:
        config = self._config
        shown = (
            offer(name, price_of(floor), None, self._storage_rate, config.gpus[number].name if config.gpus else GPU)
            for number, (name, floor) in enumerate(zip(config.machines, view.floors, strict=True))
            if not isinf(floor)
        )
        return (*shown, self._always)
