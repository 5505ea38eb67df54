"""Scores are of sums; what was given up stands in no ratio."""

from __future__ import annotations

import json

import pytest

from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.policies import Policy
from autopilot_lab.backtest.runner import Result
from autopilot_lab.backtest.scores import score_all
from autopilot_lab.backtest.suite import Suite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import availability_body

KEYS = {
    "policy", "mean_cost", "over_on_demand", "over_optimal", "p95_over_optimal", "late", "overruns", "pauses",
    "migrations", "ms_per_decision", "interval", "groups",
}  # fmt: skip

WEEK = 168

POLICY = Policy("p", "greedy", {})


def suite_of(runs: int) -> Suite:
    """Runs start a week of 168 ticks apart: each is a stretch of its own."""
    rows = [[0, WEEK * number, 10, 4, 8 if number % 2 else 9, 0.5] for number in range(runs)]
    return suite_from(availability_body("1" * (WEEK * runs + 20), runs=rows))


def result(number: int, outcome: Outcome, optimal: float = 4.0, budget: float | None = None) -> Result:
    return Result(number, 16.0, optimal, budget, (outcome,))


def test_a_row() -> None:
    results = [
        result(0, Outcome("finished", spot=3.0, lost=1.0, pauses=2, decisions=10, deciding_s=0.01)),
        result(1, Outcome("late", on_demand=12.0, migrations=1, decisions=30, deciding_s=0.03), optimal=6.0),
    ]
    row, optimal = score_all(suite_of(2), [POLICY], results)
    assert set(row.as_json()) == KEYS
    assert (row.mean_cost, row.over_on_demand) == (8.0, 0.5)
    assert row.over_optimal == pytest.approx(1.6)
    assert (row.late, row.overruns, row.pauses, row.migrations) == (1, 0, 2, 1)
    assert row.ms_per_decision == pytest.approx(1.0)
    assert row.p95_over_optimal == pytest.approx(1.95)
    assert row.interval is not None
    assert row.interval[0] <= 1.6 <= row.interval[1]
    assert [(group.deadline_h, group.over_optimal, group.late) for group in row.groups] == [(8, 2.0, 1), (9, 1.0, 0)]
    assert (optimal.policy, optimal.mean_cost, optimal.over_optimal) == ("optimal", 5.0, 1.0)
    json.dumps([row.as_json(), optimal.as_json()], allow_nan=False)


def test_budgets() -> None:
    results = [
        result(0, Outcome("finished", spot=5.0), budget=5.0),
        result(1, Outcome("finished", spot=5.1), budget=5.0),
        result(2, Outcome("parked", spot=2.0), budget=5.0),
        result(3, Outcome("refused"), budget=5.0),
        result(4, Outcome("refused"), optimal=6.0, budget=5.0),
    ]
    row, _ = score_all(suite_of(5), [POLICY], results)
    assert row.overruns == 1
    assert row.over_optimal == pytest.approx(10.1 / 8)
    assert row.as_json()["budget"] == {"affordable": 4, "accepted": 3, "finished": 2, "parked": 1, "refused": 2}


def test_nothing_played() -> None:
    row, _ = score_all(suite_of(1), [POLICY], [result(0, Outcome("refused"), budget=1.0)])
    assert (row.over_optimal, row.p95_over_optimal, row.interval) == (None, None, None)


def test_the_interval_is_repeatable_and_narrows_with_more_blocks() -> None:
    def interval(runs: int) -> tuple[float, float]:
        results = [result(number, Outcome("finished", spot=4.0 + number % 3)) for number in range(runs)]
        found = score_all(suite_of(runs), [POLICY], results)[0].interval
        assert found is not None
        return found

    few, many = interval(5), interval(30)
    assert many == interval(30)
    assert many[1] - many[0] < few[1] - few[0]


def test_runs_that_share_a_week_count_as_one_draw() -> None:
    """Thirty copies of what ten runs saw tell no more than the ten; what starts in one week has no interval."""

    def interval(apart: int, copies: int) -> tuple[float, float] | None:
        rows = [[0, apart * (number // copies), 10, 4, 8, 0.5] for number in range(10 * copies)]
        suite = suite_from(availability_body("1" * 3000, runs=rows))
        results = [
            result(number, Outcome("finished", spot=4.0 + number // copies % 3)) for number in range(10 * copies)
        ]
        return score_all(suite, [POLICY], results)[0].interval

    assert interval(WEEK, 3) == interval(WEEK, 1)
    assert interval(12, 3) is None
