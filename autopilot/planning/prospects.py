"""How a job will probably fare, before it is accepted: its forecast, the verdict, and the ways out of a bad one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus, SpotPolicy
from autopilot.domain.market import Market
from autopilot.domain.money import show
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Shape
from autopilot.domain.params import Params
from autopilot.domain.time import show_duration
from autopilot.planning.floor_prospects import Cheapest, floors_question
from autopilot.policy.budget import start_reserve
from autopilot.pricing.auction.forecast import forecast_by_floors
from autopilot.pricing.auction.played_floors import HOUR_S, FloorsQuestion
from autopilot.pricing.availability.forecast import Forecast, forecast, refusal
from autopilot.pricing.availability.played_markets import Rule
from autopilot.pricing.availability.prior import PHASES
from autopilot.pricing.availability.shape import LONGEST_S, shape_of
from autopilot.pricing.availability.value import NOTHING, ON_DEMAND, SPOT
from autopilot.pricing.hazard import hazard
from autopilot.pricing.pressure import Verdict, left_longer_by, measure_pressure
from autopilot.pricing.rule.cost import Candidate, best

FINE_FROM = 0.95
"""A job with a lower chance to finish in time is tight, regardless of its slack."""
SAID_FROM = 0.01
"""A smaller share of markets in which the budget runs out is not spoken of."""
SHOWN_AS_NONE = 0.005
"""A smaller share of markets reads 0 %."""
INFEASIBLE = "infeasible"
LATER = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Deadlines that are tried as a way out, as multiples of the time that is left."""

WITHOUT_DEADLINE = "without a [deadline] there is no on-time estimate"


class Unlikely(UserError):
    """The job would probably not be done in time, or not for its money."""


@dataclass(frozen=True, slots=True)
class Prospects:
    forecast: Forecast | None
    verdict: str | None
    """``fine``, ``tight``, ``infeasible``; None if nothing speaks against a job without a deadline."""
    refusal: str | None = None
    ways_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Question:
    """The arguments of one forecast."""

    shape: Shape
    left_s: float
    work_s: float
    on_demand_burn: float
    spot_burn: float
    budget: float | None
    is_on: bool
    belief: tuple[float, ...]
    estimate_error: float
    held_s: float | None
    rule: Rule
    mode: int
    is_due: bool
    """Whether it has a deadline."""
    floors: FloorsQuestion | None = None
    """Where enough of the floors was recorded: then it is they that are played."""

    def answer(self) -> Forecast:
        if self.floors is not None:
            floors = replace(self.floors, budget=self.budget)
            if self.is_due:
                floors = floors.due_in(self.left_s / HOUR_S)
            return forecast_by_floors(replace(floors, on_demand_price=None) if self.rule == "spot" else floors)
        return forecast(
            self.shape,
            left_s=self.left_s,
            work_s=self.work_s,
            on_demand_burn=self.on_demand_burn,
            budget=self.budget,
            is_on=self.is_on,
            belief=self.belief,
            estimate_error=self.estimate_error,
            held_s=self.held_s,
            spot_burn=self.spot_burn,
            rule=self.rule,
            mode=self.mode,
        )


def prospects(
    job: Job,
    candidates: list[Candidate],
    market: Market,
    now: datetime,
    params: Params,
    least_probability: float,
    cheapest: Cheapest = MappingProxyType({}),
) -> Prospects:
    """``candidates``: cheapest first. Blocking (about 1 s); call from a worker thread."""
    verdict = measure_pressure(job, now, params).verdict
    notes = _unknowns(job, candidates, market)
    asked = _question(job, candidates, market, now, params)
    if asked is not None:
        asked = replace(asked, floors=floors_question(job, candidates, market, cheapest, now, params))
    if asked is None:
        is_too_good = verdict is Verdict.FINE and not may_begin(job, candidates, market)
        return Prospects(None, Verdict.TIGHT if is_too_good else verdict, notes=notes)
    likely = asked.answer()
    if job.spec.deadline is None:
        return _without_deadline(job, asked, likely, notes, least_probability)
    limit = None if job.spec.budget is None else float(job.spec.budget)
    unlimited = likely if asked.budget is None else replace(asked, budget=None).answer()
    refused = refusal(likely, unlimited, limit, least_probability)
    if refused is not None:
        return Prospects(likely, INFEASIBLE, refused, _ways_out(job, asked, unlimited, least_probability), notes)
    if likely.parked >= SAID_FROM:
        notes += (f"in {likely.parked:.0%} of the markets the money is out first, and the job is parked",)
    is_fine = verdict is Verdict.FINE and likely.on_time >= FINE_FROM
    return Prospects(likely, Verdict.FINE if is_fine else Verdict.TIGHT, notes=notes)


def _without_deadline(
    job: Job, asked: _Question, likely: Forecast, notes: tuple[str, ...], least_probability: float
) -> Prospects:
    """It may take its time, so only its money can be too little. A least probability of 0 accepts any."""
    if asked.budget is None or job.spec.budget is None:
        return Prospects(likely, None, notes=notes)
    if likely.finished >= SHOWN_AS_NONE or not least_probability:
        notes += (f"the budget is enough in {likely.finished:.0%} of the simulated markets",)
        return Prospects(likely, None, notes=notes)
    unlimited = replace(asked, budget=None).answer()
    refused = (
        f"the budget of {show(job.spec.budget)} is not enough in any simulated market:"
        f" {show(job.spec.budget - Decimal(asked.budget))} of it is reserved for a safe start and stop,"
        f" and the work costs about {show(Decimal(unlimited.p50))}"
    )
    return Prospects(likely, INFEASIBLE, refused, _ways_out(job, asked, unlimited, least_probability), notes)


def _unknowns(job: Job, candidates: list[Candidate], market: Market) -> tuple[str, ...]:
    notes: list[str] = []
    if job.spec.work_estimate is None:
        notes.append("without [work] estimate neither its total cost nor its end can be estimated")
    elif job.spec.deadline is None:
        notes.append(WITHOUT_DEADLINE)
    if market.outlook.is_learning:
        notes.append("the floors on record are still being read: bids are planned without them. Plan again in a minute")
    if candidates and best(candidates, CapacityType.SPOT) is None and job.spec.spot_policy is not SpotPolicy.ON_DEMAND:
        if _falls_back(job):
            notes.append(
                "no spot that fits can be had now: planned on demand, as if none came before the deadline asks"
            )
        else:
            notes.append('no spot that fits can be had now: the job waits for it; policy = "on-demand" would not')
    return tuple(notes)


def may_begin(job: Job, candidates: list[Candidate], market: Market) -> bool:
    """Whether one of them is what the job would take: without a deadline on-demand capacity is taken for want of spot
    only where it costs nothing."""
    if best(candidates, CapacityType.SPOT) is not None:
        return True
    return bool(candidates) and (_falls_back(job) or not _wants_spot(job, market) or not _burn(job, candidates[0]))


def _wants_spot(job: Job, market: Market) -> bool:
    return job.spec.spot_policy is not SpotPolicy.ON_DEMAND and market.may_have_spot


def _falls_back(job: Job) -> bool:
    """Whether a deadline makes it take on-demand capacity when spot will not do."""
    return job.spec.deadline is not None and job.spec.fall_back


def _question(job: Job, candidates: list[Candidate], market: Market, now: datetime, params: Params) -> _Question | None:
    """None if nothing that it would take fits, or nothing is known of the job's length."""
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    if on_demand is not None and not _burn(job, on_demand):
        spot = None  # nothing is cheaper than what costs nothing
    any_way = spot or on_demand
    if any_way is None or any_way.work is None:
        return None
    if not may_begin(job, candidates, market):
        return None
    left_s = LONGEST_S if job.spec.deadline is None else (job.spec.deadline - now).total_seconds()
    work_s = any_way.work.total_seconds()
    on_demand_burn = _burn(job, on_demand or any_way)
    spot_burn = _burn(job, any_way)
    shape = shape_of(job, candidates, market.outlook, now, PHASES, params)
    rule: Rule = "table"
    if shape is None:
        rule = "deadline" if on_demand and _falls_back(job) else "spot"
        losses = 0.0
        if spot is not None:
            offer = spot.offer
            losses = hazard(market.outlook, offer.provider, offer.gpu, offer.host_id, offer.machine_id, params)
        shape = Shape(
            PHASES,
            longest_s=left_s,
            most_slack_s=max(left_s - work_s, 0.0),
            restart_s=any_way.setup.total_seconds(),
            spot_ratio=spot_burn / on_demand_burn if on_demand_burn else 1.0,
            hazard_per_h=losses,
            lost_s=job.spec.checkpoint_interval.total_seconds() / 2,
        )
    if spot is None:
        rule = "on_demand"
    budget = None
    if job.spec.budget is not None:
        budget = max(float(job.spec.budget - job.spent - _set_aside(job, any_way, params)), 0.0)
    belief = market.outlook.belief if len(market.outlook.belief) == len(PHASES.on) else ()
    return _Question(
        shape,
        left_s,
        work_s,
        on_demand_burn,
        spot_burn,
        budget,
        is_on=spot is not None,
        belief=belief,
        estimate_error=left_longer_by(job, params.deadline),
        held_s=_held_s(job, now, params),
        rule=rule,
        mode=_held_mode(job, is_on=spot is not None),
        is_due=job.spec.deadline is not None,
    )


def _held_mode(job: Job, *, is_on: bool) -> int:
    """What a machine that works already means to the table: one that is still made ready counts as none."""
    main = job.main
    if main is None or job.status is not JobStatus.RUNNING:
        return NOTHING
    if not main.is_spot:
        return ON_DEMAND
    return SPOT if is_on else NOTHING


def _held_s(job: Job, now: datetime, params: Params) -> float | None:
    """The time that the guard holds for an estimate that is too low; None: there is no deadline to hold it for."""
    pressure = measure_pressure(job, now, params)
    return None if pressure.slack is None else pressure.upper_work_s - pressure.work_s


def _burn(job: Job, choice: Candidate) -> float:
    return float(choice.expected_price + choice.offer.storage_rate(job.spec.disk_gb))


def _set_aside(job: Job, choice: Candidate, params: Params) -> Decimal:
    """What of a budget is never spent on work: stopping safely, and traffic."""
    return start_reserve(job, choice.offer, choice.bid, params)


def _ways_out(job: Job, asked: _Question, unlimited: Forecast, least_probability: float) -> tuple[str, ...]:
    """More money, more time, or cheaper hours, each with a number that would do."""
    ways: list[str] = []
    has_deadline = job.spec.deadline is not None
    if job.spec.budget is not None and asked.budget is not None:
        needed = job.spec.budget + Decimal(unlimited.p90 - asked.budget)
        enough = (unlimited.on_time if has_deadline else unlimited.finished) >= least_probability
        if enough and needed > job.spec.budget:
            ways.append(f"more budget: {show(needed)} is enough in 9 markets of 10")
    if asked.is_on and has_deadline:
        ways += _later(asked, least_probability)
    if asked.budget is not None and unlimited.p90 > asked.budget:
        ways.append(
            f"a cheaper GPU, or less work: the budget pays for {asked.budget / unlimited.p90:.0%} of it"
            f" at ${asked.spot_burn:.3f}/h on spot and ${asked.on_demand_burn:.3f}/h on demand"
        )
    if asked.rule == "spot" and has_deadline:
        ways.append(
            'spot and on demand: [spot] policy = "auto" without fallback = "never", '
            "on an offer that is there on demand as well"
        )
    return tuple(ways)


def _later(asked: _Question, least_probability: float) -> list[str]:
    """The nearest deadline that spot alone would probably meet."""
    for factor in LATER:
        likely = replace(asked, left_s=asked.left_s * factor, rule="spot").answer()
        if likely.on_time >= least_probability:
            span = show_duration(timedelta(seconds=asked.left_s * factor))
            return [f"a later deadline: in {span}, {likely.on_time:.0%} likely for about ${likely.mean:.2f}"]
    return []
