"""The product's policy on availability suites: one market that is on or off."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from autopilot.domain.actions import Acquire, Release, SaveAndStop, SetStatus
from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Capabilities, CapacityType
from autopilot.domain.outlook import LEAST_PROBABILITY, Belief, Outlook, PhaseModel, Shape
from autopilot.domain.params import Moves
from autopilot.pricing.availability.forecast import Forecast, forecast, refusal
from autopilot.pricing.availability.phases import first_belief, next_belief
from autopilot_lab.backtest.availability import AvailabilityChooser, AvailabilityView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.session import MARKET, ORIGIN, Session, offer, physics, price_of, with_given
from autopilot_lab.backtest.suite import AvailabilityConfig, AvailabilityJob
from autopilot_lab.backtest.suite import Params as Given

ABLE = Capabilities(
    spot=True,
    on_demand=True,
    can_rebid=False,
    pauses_when_outbid=False,
    keeps_disk_when_stopped=False,
    reports_floor=True,
    bills_at_bid=False,
)


def start_on_availability(
    config: AvailabilityConfig, job: AvailabilityJob, given: Given, model: PhaseModel
) -> AvailabilityChooser:
    return AvailabilityMapping(config, job, given, model).choose


class AvailabilityMapping:
    def __init__(self, config: AvailabilityConfig, job: AvailabilityJob, given: Given, model: PhaseModel) -> None:
        self._job, self._on_demand_price = job, config.on_demand_price
        self._tick = timedelta(seconds=config.tick_s)
        self._tick_s = config.tick_s
        params = with_given(replace(physics(job, config.tick_s, job.restart_s), moves=Moves(least_stay_s=0.0)), given)
        self._session = Session(job, params, max_bid=price_of(config.on_demand_price))
        self._shape = Shape(
            model,
            longest_s=job.deadline_s,
            most_slack_s=max(job.deadline_s - job.work_s, config.tick_s),
            restart_s=job.restart_s,
            spot_ratio=config.spot_rate / config.on_demand_price,
        )
        spot, on_demand = price_of(config.spot_rate), price_of(config.on_demand_price)
        self._billed = {CapacityType.SPOT: spot, CapacityType.ON_DEMAND: on_demand}
        always = offer("on-demand", None, on_demand)
        self._offers = {True: (offer("spot", spot, None), always), False: (always,)}
        self._views = {MARKET: ProviderView(ABLE, known=True, credit=None)}
        self._belief: Belief = ()

    def choose(self, view: AvailabilityView) -> Choice:
        now = ORIGIN + self._tick * view.tick
        session, phases, is_on = self._session, self._shape.phases, view.spot_available
        if self._belief:
            self._belief = next_belief(phases, self._belief, self._tick_s, is_on)
        else:
            self._belief = first_belief(phases, is_on)
        held = session.job.main
        if held is not None and view.running is not _choice_of(held):
            # Preempted, or the move to it was refused and what ran before goes on.
            went_on = session.before is not None and view.running is _choice_of(session.before)
            session.lose(now)
            held = session.before if went_on else None
        if held is not None:
            state = AgentState.SETTING_UP if view.pending_s > 0 else AgentState.RUNNING
            session.see(held, InstanceStatus.RUNNING, self._billed[held.capacity_type], state, now)
        session.set_progress(self._job.work_s - view.work_left_s, view.spent)
        if view.tick == 0 and self._job.budget is not None and self._is_refused(view):
            return Choice.PARK
        outlook = Outlook(shape=self._shape, belief=self._belief)
        choice = view.running
        for action in session.decide(Market(self._views, self._offers[is_on], now, outlook=outlook), now):
            match action:
                case Acquire():
                    session.rent(action, now)
                    choice = Choice.SPOT if action.capacity_type is CapacityType.SPOT else Choice.ON_DEMAND
                case SaveAndStop() | SetStatus():
                    return Choice.PARK
                case Release():
                    session.lose(now)
                    choice = Choice.NONE
                case _:
                    raise TypeError(f"not on such a market: {action}")
        return choice

    def _is_refused(self, view: AvailabilityView) -> bool:
        """As ``submit`` would refuse the job: too unlikely to be done in time, or within its budget."""
        likely, unlimited = self._forecast(view, self._job.budget), self._forecast(view, None)
        return refusal(likely, unlimited, self._job.budget, LEAST_PROBABILITY) is not None

    def _forecast(self, view: AvailabilityView, budget: float | None) -> Forecast:
        job = self._job
        return forecast(
            self._shape,
            left_s=job.deadline_s,
            work_s=job.work_s,
            on_demand_burn=self._on_demand_price,
            budget=budget,
            is_on=view.spot_available,
            estimate_error=job.estimate_error,
        )


def _choice_of(lease: Lease) -> Choice:
    return Choice.SPOT if lease.is_spot else Choice.ON_DEMAND
