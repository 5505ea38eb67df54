"""One job: what its plan says before it starts, and how it then fares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isinf
from typing import Any

from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.market import Market
from autopilot.engine.auctions import LEARN_FROM
from autopilot.planning.plan import OverBudget, plan
from autopilot.planning.prospects import Unlikely
from autopilot.pricing.auction.played_floors import RECORD_STEP_S
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.live import Live
from autopilot_lab.backtest.map_live import LiveMapping
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.session import GPU, MARKET, ORIGIN
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, on_demand_cost
from tools.calibration.cases import Case


@dataclass(frozen=True, slots=True)
class Trial:
    """What was said of a job and what came; dollars and hours from its start on."""

    market: str
    start: int
    deadline_h: float
    budget: float | None
    on_time: float
    """The chance of being done in time and within the budget, as the plan said it."""
    mean: float
    p10: float
    p90: float
    done_p10_h: float | None
    """From when to when it is said to be done, in 8 of 10 markets that bring it there."""
    done_p90_h: float | None
    status: str
    cost: float
    took_h: float

    @property
    def is_in_time(self) -> bool:
        return self.status == "finished"


class _Asking(LiveMapping):
    """The policy as live, whose first sight of the market is planned with before it decides."""

    said: JobForecast | None = None
    _is_planned = False

    def _market(self, view: BidView, now: datetime) -> Market:
        market = super()._market(view, now)
        if not self._is_planned:
            self._is_planned = True
            self.said = self._plan(market, self._cheapest(view), now)
        return market

    def _cheapest(self, view: BidView) -> Sequence[float]:
        """The least of the floors of each step of the record, as the daemon reads it."""
        rows = [view.history(number, view.ticks_seen) for number in self._numbers.values()]
        floors = [min(each) for each in zip(*rows, strict=True)][-(LEARN_FROM // self._tick) :]
        ticks = max(round(RECORD_STEP_S / self._config.tick_s), 1)
        steps = [min(floors[max(end - ticks, 0) : end]) for end in range(len(floors), 0, -ticks)]
        return [low for low in reversed(steps) if not isinf(low)]

    def _plan(self, market: Market, cheapest: Sequence[float], now: datetime) -> JobForecast | None:
        session = self._session
        recorded = {(MARKET, GPU, 1): cheapest}
        try:
            return plan(session.job, market, now, session.params, least_probability=0.0, cheapest=recorded).forecast
        except (Unlikely, OverBudget):
            return None


def try_case(case: Case, live: Live, budget: float | None) -> Trial | None:
    """None if the plan refuses the job, or can say nothing."""
    mappings: list[_Asking] = []

    def start(config: Any, job: Any) -> Any:
        assert isinstance(config, BidConfig)
        assert isinstance(job, BidJob)
        mappings.append(_Asking(config, job, {}, PHASES))
        return mappings[0].choose

    share = None if budget is None else budget / on_demand_cost(case.suite.config, case.run)
    conditions = Conditions(share, live=live)
    outcome = play(case.suite, case.run, start, conditions)
    said = mappings[0].said
    return None if said is None else _trial(case, budget, said, outcome)


def _trial(case: Case, budget: float | None, said: JobForecast, outcome: Outcome) -> Trial:
    return Trial(
        market=case.suite.name,
        start=case.run.start,
        deadline_h=round(case.run.deadline_s / HOUR_S, 3),
        budget=None if budget is None else round(budget, 4),
        on_time=said.on_time or 0.0,
        mean=float(said.mean),
        p10=float(said.p10),
        p90=float(said.p90),
        done_p10_h=_hours(said.done_p10),
        done_p90_h=_hours(said.done_p90),
        status=outcome.status,
        cost=round(outcome.cost, 4),
        took_h=round(outcome.decisions * case.suite.config.tick_s / HOUR_S, 3),
    )


def _hours(at: datetime | None) -> float | None:
    return None if at is None else round((at - ORIGIN).total_seconds() / HOUR_S, 3)
