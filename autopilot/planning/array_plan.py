"""What an array would cost, when it would end and how likely that is, and what other widths would come to.

One task is planned like any job. The whole is calculated from it: tasks that take turns on so many machines, each
taking as long and costing as much as the forecast of one says, independently of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil, sqrt
from statistics import NormalDist
from types import MappingProxyType

from autopilot import render
from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO, show
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.params import Params
from autopilot.planning.account_limits import AccountState
from autopilot.planning.floor_prospects import Cheapest
from autopilot.planning.plan import SHOWN, JobPlan, OverBudget, plan
from autopilot.planning.prospects import INFEASIBLE, WITHOUT_DEADLINE
from autopilot.policy.array_measures import like_a_task, machines_of, width_now
from autopilot.policy.eligibility import eligible
from autopilot.policy.width import TaskMeasure, Width
from autopilot.pricing.pressure import Verdict
from autopilot.pricing.rule.cost import price_candidates

FINE_FROM = 0.95
P90 = NormalDist().inv_cdf(0.9)
NO_FLOORS: Cheapest = MappingProxyType({})
NO_TASKS = TaskCounts()


@dataclass(frozen=True, slots=True)
class _Task:
    """How long one takes and what it costs: mean and standard deviation."""

    mean_s: float
    spread_s: float
    cost: Decimal
    cost_spread: float


def plan_array(
    job: Job,
    market: Market,
    now: datetime,
    params: Params,
    least_probability: float = LEAST_PROBABILITY,
    account: AccountState | None = None,
    spent: Decimal = ZERO,
    cheapest: Cheapest = NO_FLOORS,
    counts: TaskCounts = NO_TASKS,
) -> JobPlan:
    """Arguments and errors as of ``plan``. ``spent``: of all tasks so far; ``counts``: how they stand. What is planned
    is the rest."""
    array = job.spec.array
    assert array is not None, "of an array"
    like = like_a_task(job)
    made = plan(like, market, now, params, least_probability, account, cheapest=cheapest)
    answer = made.answer
    candidates = price_candidates(like, market, eligible(like, market, now, params), params)
    rest = max(array.needed - counts.succeeded, 0)
    prices = machines_of(candidates, market, (), job.spec.disk_gb, array.parallel)
    left = None if job.spec.deadline is None else job.spec.deadline - now
    budget = None if job.spec.budget is None else job.spec.budget - spent
    width, measure = width_now(job, counts, (), market, now, params, budget=budget)
    if width.payable == 0 and not counts.begun and budget is not None and measure.cost is not None:
        raise OverBudget(
            f"a budget of {show(budget)} pays for none of the {array.count} tasks, about {show(measure.cost)} each",
            hint="raise [budget] total, or ask for a cheaper GPU in [resources]",
        )
    task = _measure(measure, made, now)
    curve = [] if task is None else [_on(n, rest, task, prices, left, now) for n in _widths(array, width)]
    chosen = next((row for row in curve if row["width"] == max(width.tasks, 1)), None)
    answer |= {
        "expected_cost": chosen and chosen["expected_cost"],
        "on_demand_cost": _times(answer["on_demand_cost"], rest),
        "list_price_cost": _times(answer["list_price_cost"], rest),
        "budget": render.plain(job.spec.budget),
        "deadline": render.plain(job.spec.deadline),
        "array": {
            "count": array.count,
            "needed": array.needed,
            "parallel": array.parallel,
            "width": width.tasks,
            "bound": width.bound,
            "task_cost": None if task is None else render.plain(task.cost),
            "task_s": None if measure.busy is None else render.plain(measure.busy),
            "end": chosen and chosen["end"],
            "on_time": chosen and chosen["on_time"],
            "payable": width.payable,
            "curve": curve,
        },
    }
    # The deadline is the array's, shown above; the task by itself has none.
    of_task = [note for note in answer["notes"] if left is None or note != WITHOUT_DEADLINE]
    answer["notes"] = [_about(array), *_about_budget(rest, width, budget), *of_task]
    _judge(answer, array, chosen, left, least_probability)
    return replace(made, forecast=None)


def _measure(measure: TaskMeasure, made: JobPlan, now: datetime) -> _Task | None:
    """None if the duration of a task is unknown."""
    if measure.busy is None or measure.cost is None:
        return None
    mean_s, forecast = measure.busy.total_seconds(), made.forecast
    if forecast is None or forecast.done_p50 is None or forecast.done_p90 is None:
        return _Task(mean_s, mean_s / 4, measure.cost, float(measure.cost) / 4)
    middle = (forecast.done_p50 - now).total_seconds()
    spread = max((forecast.done_p90 - forecast.done_p50).total_seconds(), 0.0) / P90
    cost_spread = max(float(forecast.p90 - forecast.p50), 0.0) / P90
    return _Task(max(mean_s, middle), spread, forecast.mean, cost_spread)


def _widths(array: ArraySpec, width: Width) -> list[int]:
    """Doubling up to what ``parallel`` allows, with the chosen one among them."""
    most = min(array.parallel, array.count)
    doubled = [2**n for n in range(most.bit_length()) if 2**n <= most]
    return sorted({*doubled, most, min(max(width.tasks, 1), most)})


def _on(
    width: int, rest: int, task: _Task, prices: list[Decimal], left: timedelta | None, now: datetime
) -> render.Json:
    turns = ceil(rest / width)
    mean_s, spread_s = turns * task.mean_s, sqrt(turns) * task.spread_s
    on_time = None
    if left is not None:
        on_time = _chance(left.total_seconds(), mean_s, spread_s) ** width
    cost = task.cost * rest * _dearer(width, prices)
    return {
        "width": width,
        "expected_cost": render.plain(cost.quantize(SHOWN)),
        "end": render.plain(now + timedelta(seconds=round(mean_s))),
        "on_time": None if on_time is None else round(on_time, 3),
    }


def _dearer(width: int, prices: list[Decimal]) -> Decimal:
    """How much dearer the cheapest ``width`` machines are, on average, than the cheapest one."""
    taken = prices[:width]
    if not taken or taken[0] <= ZERO:
        return Decimal(1)
    return sum(taken, ZERO) / len(taken) / taken[0]


def _chance(most: float, mean: float, spread: float) -> float:
    if spread <= 0:
        return float(mean <= most)
    return NormalDist(mean, spread).cdf(most)


def _times(amount: str | None, count: int) -> str | None:
    told: str | None = None if amount is None else render.plain(Decimal(amount) * count)
    return told


def _about(array: ArraySpec) -> str:
    suffices = f", of which {array.needed:,} have to succeed" if array.needed < array.count else ""
    return f"an array of {array.count:,} tasks{suffices}, {array.parallel} at once at the most; offers are for one task"


def _about_budget(rest: int, width: Width, budget: Decimal | None) -> list[str]:
    if budget is None or width.payable is None or width.payable >= rest:
        return []
    return [f"the budget of {show(budget)} finishes about {width.payable:,} of the {rest:,} tasks"]


def _judge(
    answer: render.Json, array: ArraySpec, chosen: render.Json | None, left: timedelta | None, least: float
) -> None:
    if left is None or chosen is None or chosen["on_time"] is None:
        return
    on_time = chosen["on_time"]
    answer["verdict"] = Verdict.FINE if on_time >= FINE_FROM else Verdict.TIGHT
    if on_time >= least:
        return
    wider = next((row["width"] for row in answer["array"]["curve"] if row["on_time"] >= least), None)
    ways = ["a later deadline"]
    if wider is not None:
        ways.insert(0, f"{wider} at once would make it")
    elif array.parallel < array.count:
        ways.insert(0, f"more than parallel = {array.parallel} at once")
    likely = f"only {on_time:.0%} likely with {chosen['width']} at once"
    answer |= {
        "verdict": INFEASIBLE,
        "refusal": f"all of it is done in time {likely}",
        "ways_out": ways,
    }
