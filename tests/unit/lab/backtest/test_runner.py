"""The same results in one process, in several, and in any order of finishing."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot_lab.backtest.perturbation import Perturbation
from autopilot_lab.backtest.play import Conditions
from autopilot_lab.backtest.runner import Plan, Result, run_plan
from autopilot_lab.backtest.selection import select_runs
from autopilot_lab.backtest.suite import AvailabilitySuite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import baselines, random_availability_body, random_bid_body

HARD = Conditions(0.5, Perturbation(estimate_error=0.2, lag_ticks=1, vanish=0.1))


def plan_of(body: dict[str, object], conditions: Conditions = HARD) -> Plan:
    suite = suite_from(body)
    return Plan(suite, baselines(suite.config.kind), {}, conditions)


def without_time(results: list[Result]) -> list[Result]:
    for result in results:
        for outcome in result.outcomes:
            outcome.deciding_s = 0.0
    return results


@pytest.mark.slow
@pytest.mark.parametrize("body", [random_availability_body(3, runs=30), random_bid_body(3, runs=30)])
def test_processes_and_this_one_agree(body: dict[str, Any]) -> None:
    plan = plan_of(body)
    done: list[int] = []
    numbers = select_runs(plan.suite, None)
    here = without_time(run_plan(plan, numbers, jobs=1))
    elsewhere = without_time(run_plan(plan, numbers, jobs=2, advance=done.append))
    assert here == elsewhere
    assert [result.run for result in here] == numbers
    assert sum(done) == 30


def test_parts_are_what_the_whole_is_made_of() -> None:
    plan = plan_of(random_availability_body(4, runs=20))
    whole = without_time(run_plan(plan, select_runs(plan.suite, None), jobs=1))
    part = without_time(run_plan(plan, select_runs(plan.suite, "5"), jobs=1))
    assert part == [whole[number] for number in (0, 4, 8, 12, 16)]


def test_every_nth_is_counted_within_each_setting() -> None:
    suite = suite_from(random_availability_body(5, runs=40))
    chosen = select_runs(suite, "every-2nd")
    groups: dict[object, list[int]] = {}
    assert isinstance(suite, AvailabilitySuite)
    for number, run in enumerate(suite.runs):
        groups.setdefault((run.setting, run.deadline_s), []).append(number)
    assert sorted(chosen) == chosen == sorted(number for group in groups.values() for number in group[::2])


@pytest.mark.parametrize("which", ["0", "every-0", "half", "-3"])
def test_what_selects_nothing(which: str) -> None:
    with pytest.raises(UserError, match="--runs"):
        select_runs(suite_from(random_availability_body(5)), which)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_extra_is_named() -> None:
    plan = plan_of(random_availability_body(6))
    with pytest.raises(UserError, match=r"gpu-autopilot-lab\[ray\]"):
        run_plan(plan, [0], jobs=1, place="ray")


@pytest.mark.parametrize("body", [random_availability_body(7, runs=40), random_bid_body(7, runs=30)])
def test_money_and_work_add_up(body: dict[str, object]) -> None:
    plan = plan_of(body, Conditions())
    for result in run_plan(plan, select_runs(plan.suite, None), jobs=1):
        on_demand, *others = result.outcomes
        assert on_demand.cost == pytest.approx(result.on_demand)
        for outcome in (on_demand, *others):
            assert outcome.cost >= result.optimal - 1e-9
            assert min(outcome.spot, outcome.on_demand, outcome.storage, outcome.lost) >= -1e-9
            assert outcome.status == "finished"
