"""What plans said is held against what came: the jobs, the counts, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.suite import BidSuite
from autopilot_lab.backtest.suite_file import suite_from
from tools.calibration import __main__ as command
from tools.calibration.cases import BUDGETS, Case, recorded
from tools.calibration.kept import Kept, append, code_of, read
from tools.calibration.report import picture, tables
from tools.calibration.scores import coverage, reliability
from tools.calibration.trial import Trial, try_case

LIVE = Live(recorded_h=48.0)


def a_trial(**changes: Any) -> Trial:
    values: dict[str, Any] = {
        "market": "m", "start": 1, "deadline_h": 30.0, "budget": None, "on_time": 0.8, "mean": 5.0, "p10": 4.0,
        "p90": 6.0, "done_p10_h": 24.0, "done_p90_h": 28.0, "status": "finished", "cost": 5.0, "took_h": 25.0,
    }  # fmt: skip
    return Trial(**(values | changes))


def a_suite(ticks: int = 3000, floor: float = 0.3) -> BidSuite:
    """Ten days of one calm machine and one that is dearer; a start each day from the third on."""
    floors = {"a": [[0, floor]], "b": [[0, floor * 1.2], [900, floor * 1.5]]}
    suite = suite_from(
        {
            "kind": "bids", "name": "ten days", "tick_s": 300, "ticks": ticks, "on_demand_rate": 1.0,
            "storage_rate": 0.01, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600, "floors": floors,
            "columns": ["start", "work_h", "deadline_h", "pay"],
            "runs": [[day * 288, 3, due, pay] for day in (3, 4, 8) for due in (4, 6) for pay in ("bid", "clearing")],
        }
    )  # fmt: skip
    assert isinstance(suite, BidSuite)
    return suite


def test_one_start_a_week_with_each_deadline_and_work_that_is_not_as_estimated() -> None:
    suite = a_suite()
    jobs = list(recorded(suite, LIVE))
    assert [[(case.run.start, case.run.deadline_s / 3600) for case in job] for job in jobs] == [
        [(864, 4.0), (864, 6.0)],
        [(2304, 4.0), (2304, 6.0)],
    ]
    cases = [case for job in jobs for case in job]
    assert all(LIVE.estimated_work_s(case.run.work_s, case.run.block) == pytest.approx(3 * 3600) for case in cases)
    assert len({case.run.work_s for case in cases}) == 2, "the truth differs between starts alone"
    hours = [case.budget / (3 * 0.31) for case in cases]
    assert all(BUDGETS[0] <= times <= BUDGETS[1] for times in hours)
    assert len(set(hours)) == 4


@pytest.mark.slow
def test_a_job_is_planned_by_what_was_recorded_and_then_played() -> None:
    (first, second), _ = recorded(a_suite(), LIVE)
    said = try_case(second, LIVE, None)
    assert said is not None
    assert (said.market, said.start, said.deadline_h, said.budget) == ("ten days", 864, 6.0, None)
    assert (said.status, said.is_in_time) == ("finished", True)
    whole = said.took_h * (0.3 * 1.05 + 0.01)
    assert said.p10 < whole < said.p90, "a calm market costs what was said"
    assert said.cost < whole, "the plan counts loading, which is not billed"
    assert 3 * 0.85 < said.took_h < 4.5
    with_budget = try_case(first, LIVE, 0.5)
    assert with_budget is not None
    assert (with_budget.on_time, with_budget.is_in_time) == (0.0, False)
    assert with_budget.cost <= 0.5
    dear = as_searched(replace(a_suite(), floors=tuple(row[:] for row in a_suite(floor=0.6).floors)), LIVE)
    again = try_case(Case(dear, second.run, 9.0), LIVE, None)
    assert again is not None
    assert again.mean > 1.5 * said.mean


def test_shares_are_counted_and_markets_resampled_whole() -> None:
    trials = [a_trial(start=start, status="finished" if start < 8 else "late") for start in range(10)]
    (found,) = reliability(trials)
    assert (found.trials, found.came) == (10, 0.8)
    assert found.said == pytest.approx(0.8)
    assert 0.4 <= found.low < 0.8 < found.high <= 1.0
    alike = [a_trial(start=one.start, status=one.status) for one in trials for _ in range(9)]
    assert (reliability(alike)[0].low, reliability(alike)[0].high) == (found.low, found.high)
    assert [each.said for each in reliability([a_trial(on_time=0.0), a_trial(on_time=1.0)])] == [0.0, 1.0]


def test_the_interval_is_that_of_jobs_without_a_budget() -> None:
    costs = (3.9, 4.0, 5.0, 6.0, 6.1)
    trials = [a_trial(start=number, cost=cost) for number, cost in enumerate(costs)]
    found = coverage([*trials, a_trial(budget=9.0, cost=99.0)])
    assert found is not None
    assert (found.trials, found.came) == (5, 0.6)
    assert coverage([a_trial(budget=9.0)]) is None
    shown = "\n".join(tables({"here": trials}))
    assert "here: 5 jobs on 5 stretches of market" in shown
    assert "60% (20% below, 20% above)" in shown
    assert picture({"here": trials}).startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_what_is_kept_is_read_again_and_belongs_to_its_code(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    assert read(path) == []
    rows = [Kept("abc", "made-up markets", a_trial()), Kept("abc", "recorded markets", a_trial(budget=2.5))]
    for row in rows:
        append(path, row)
    assert read(path) == rows
    assert code_of() == code_of()
    assert len(code_of()) == 12


def test_a_share_skips_what_is_kept_and_the_report_is_of_the_newest_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, drawn = tmp_path / "kept.jsonl", tmp_path / "picture.svg"
    monkeypatch.setattr(command, "PICTURE", drawn)
    played: list[int] = []

    def one_case(kind: str, seed: int, live: Live) -> list[Any]:
        played.append(seed)
        return [Case(replace(a_suite(), name=f"synthetic vast {seed}"), a_suite().runs[0], 1.0)]

    monkeypatch.setattr(command, "made_up", one_case)
    monkeypatch.setattr(command, "try_case", lambda case, _live, budget: a_trial(market=case.suite.name, budget=budget))
    share = ["--results", str(results), "--shard", "3/200", "--only", "made-up markets"]
    assert command.main(["--report", "--results", str(results)]) == 1
    assert command.main(share) == 0
    assert played == [31002, 31202]
    assert len(read(results)) == 4
    assert command.main(share) == 0
    assert played == [31002, 31202]
    append(results, Kept("newer", "made-up markets", a_trial()))
    assert command.main(["--report", "--results", str(results)]) == 0
    assert "made-up markets: 1 jobs on 1 stretches" in capsys.readouterr().out
    assert "<svg" in drawn.read_text()
