"""The table: what each policy cost beside on-demand and the optimum, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.policies import OPTIMAL, Policy
from autopilot_lab.backtest.runner import Result
from autopilot_lab.backtest.suite import HOUR_S, AvailabilityRun, Run, Suite

RESAMPLES = 2000
STRETCH_S = 7 * 86400.0
"""Runs that start in one week of one market are resampled together: they saw much the same prices."""
CENT_FRACTION = 1e-9
"""Dollars by which sums of floats may pass a budget."""


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one deadline in one setting."""

    setting: str
    deadline_h: float
    runs: int
    mean_cost: float
    over_optimal: float | None
    late: int


@dataclass(frozen=True, slots=True)
class BudgetScore:
    """How a policy dealt with budgets. ``affordable``: runs that the optimum finishes within budget."""

    affordable: int
    accepted: int
    """Affordable runs that were not refused."""
    finished: int
    """Accepted ones that finished on time."""
    parked: int
    refused: int
    """Parked and refused count all runs."""


@dataclass(frozen=True, slots=True)
class Score:
    """One row. Ratios are of sums; runs that were refused or parked stand in no ratio."""

    policy: str
    mean_cost: float
    over_on_demand: float | None
    over_optimal: float | None
    p95_over_optimal: float | None
    late: int
    overruns: int
    pauses: int | None
    migrations: int | None
    ms_per_decision: float | None
    interval: tuple[float, float] | None
    """95 % of ``over_optimal``, by resampling stretches of market; None if all runs start in one."""
    groups: tuple[Group, ...]
    budget: BudgetScore | None = None

    def as_json(self) -> dict[str, Any]:
        """Its fields; ``budget`` only where there were budgets."""
        row = asdict(self)
        if self.budget is None:
            del row["budget"]
        return row


def score_all(suite: Suite, policies: Sequence[Policy], results: Sequence[Result]) -> list[Score]:
    """A row for each policy in their order, then the optimum's."""
    columns = [[result.outcomes[index] for result in results] for index in range(len(policies))]
    rows = [_score(policy.label, suite, results, column) for policy, column in zip(policies, columns, strict=True)]
    return [*rows, _optimal_score(suite, results)]


def _score(label: str, suite: Suite, results: Sequence[Result], outcomes: Sequence[Outcome]) -> Score:
    runs = [suite.runs[result.run] for result in results]
    costs = np.array([outcome.cost for outcome in outcomes])
    played = np.array([outcome.status in ("finished", "late") for outcome in outcomes])
    optimal = np.array([result.optimal for result in results])
    on_demand = np.array([result.on_demand for result in results])
    decisions = sum(outcome.decisions for outcome in outcomes)
    return Score(
        policy=label,
        mean_cost=float(costs.mean()),
        over_on_demand=_ratio(costs[played], on_demand[played]),
        over_optimal=_ratio(costs[played], optimal[played]),
        p95_over_optimal=float(np.quantile(costs[played] / optimal[played], 0.95)) if played.any() else None,
        late=_late(outcomes),
        overruns=sum(
            result.budget is not None and outcome.cost > result.budget + CENT_FRACTION
            for result, outcome in zip(results, outcomes, strict=True)
        ),
        pauses=sum(outcome.pauses for outcome in outcomes),
        migrations=sum(outcome.migrations for outcome in outcomes),
        ms_per_decision=1000 * sum(outcome.deciding_s for outcome in outcomes) / max(decisions, 1),
        interval=_interval(_stretches(runs, suite), costs, optimal, played),
        groups=_groups(runs, costs, optimal, played, outcomes),
        budget=_budget_score(results, outcomes) if results[0].budget is not None else None,
    )


def _optimal_score(suite: Suite, results: Sequence[Result]) -> Score:
    runs = [suite.runs[result.run] for result in results]
    optimal = np.array([result.optimal for result in results])
    on_demand = np.array([result.on_demand for result in results])
    every = np.ones(len(results), dtype=bool)
    finished = [Outcome("finished") for _ in results]
    groups = _groups(runs, optimal, optimal, every, finished)
    over = _ratio(optimal, on_demand)
    return Score(OPTIMAL, float(optimal.mean()), over, 1.0, 1.0, 0, 0, None, None, None, (1.0, 1.0), groups)


def _late(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.status == "late" for outcome in outcomes)


def _ratio(costs: Any, yardstick: Any) -> float | None:
    return float(costs.sum() / yardstick.sum()) if len(costs) else None


def _stretches(runs: Sequence[Run], suite: Suite) -> list[tuple[int, int]]:
    """(trace, week) in which each run starts. Runs of one week overlap or see much the same: they are no two draws."""
    ticks = STRETCH_S / suite.config.tick_s
    return [(run.trace if isinstance(run, AvailabilityRun) else 0, int(run.start // ticks)) for run in runs]


def _interval(
    stretches: Sequence[tuple[int, int]], costs: Any, optimal: Any, played: Any
) -> tuple[float, float] | None:
    numbers: dict[tuple[int, int], int] = {}
    block = np.array([numbers.setdefault(stretch, len(numbers)) for stretch in stretches])[played]
    if len(set(block.tolist())) < 2:
        return None
    cost_sums = np.bincount(block, costs[played], len(numbers))
    optimal_sums = np.bincount(block, optimal[played], len(numbers))
    drawn = np.random.default_rng(1).integers(0, len(numbers), (RESAMPLES, len(numbers)))
    below = optimal_sums[drawn].sum(axis=1)
    ratios = cost_sums[drawn].sum(axis=1)[below > 0] / below[below > 0]
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def _groups(
    runs: Sequence[Run], costs: Any, optimal: Any, played: Any, outcomes: Sequence[Outcome]
) -> tuple[Group, ...]:
    members: dict[tuple[str, float], list[int]] = {}
    for index, run in enumerate(runs):
        members.setdefault((run.setting, run.deadline_s / HOUR_S), []).append(index)
    return tuple(
        Group(
            setting,
            deadline_h,
            runs=len(group),
            mean_cost=float(costs[group].mean()),
            over_optimal=_ratio(costs[group][played[group]], optimal[group][played[group]]),
            late=_late([outcomes[index] for index in group]),
        )
        for (setting, deadline_h), group in sorted(members.items())
    )


def _budget_score(results: Sequence[Result], outcomes: Sequence[Outcome]) -> BudgetScore:
    affordable = [
        outcome
        for result, outcome in zip(results, outcomes, strict=True)
        if result.budget is not None and result.optimal <= result.budget + CENT_FRACTION
    ]
    accepted = [outcome for outcome in affordable if outcome.status != "refused"]
    return BudgetScore(
        affordable=len(affordable),
        accepted=len(accepted),
        finished=sum(outcome.status == "finished" for outcome in accepted),
        parked=sum(outcome.status == "parked" for outcome in outcomes),
        refused=sum(outcome.status == "refused" for outcome in outcomes),
    )
