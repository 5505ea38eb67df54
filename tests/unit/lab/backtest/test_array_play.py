"""Arrays in a backtest: tasks that share a market, their machines used again, the engine's own width beside numbers."""

from __future__ import annotations

import json
from math import isclose

import pytest

from autopilot.cli.main import run
from autopilot.domain.errors import UserError
from autopilot_lab.backtest.array_play import play_array
from autopilot_lab.backtest.arrays import ArrayPlan, parse_widths, run_arrays
from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.policies import fit_models, parse_policies, starter
from autopilot_lab.backtest.suite import HOUR_S, BidSuite
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite
from autopilot_lab.backtest.tasks import Task

pytestmark = pytest.mark.slow

LIVE = Live()


def suite_of(kind: Kind, work_h: float, *deadlines_h: float, seed: int = 1) -> BidSuite:
    task = Task("task", work_h * HOUR_S, tuple(each * HOUR_S for each in deadlines_h), checkpoint_s=600.0)
    return as_searched(synthetic_suite(kind, seed, task, starts=1), LIVE)


@pytest.mark.parametrize("kind", ["calm", "stormy", "vast"])
@pytest.mark.parametrize("parallel", [None, 1])
def test_an_array_of_one_task_is_played_as_that_run(kind: Kind, parallel: int | None) -> None:
    suite = suite_of(kind, 4, 7)
    (policy,) = parse_policies("autopilot")
    start = starter(policy, "bids", fit_models((policy,), None))
    alone = play(suite, suite.runs[0], start, Conditions(live=LIVE))
    outcome = play_array(suite, suite.runs[0], 1, parallel, LIVE)
    assert isclose(outcome.cost, alone.cost, rel_tol=1e-12)
    assert (outcome.done, outcome.boots, outcome.widest) == (1, 1, 1)
    assert alone.status == "finished"


def test_tasks_take_turns_on_machines_and_no_more_are_at_work_than_asked() -> None:
    suite = suite_of("calm", 1, 8)
    outcome = play_array(suite, suite.runs[0], 8, 3, LIVE)
    assert (outcome.done, outcome.widest) == (8, 3)
    assert outcome.end_h is not None
    assert 3.0 < outcome.end_h <= 8.0, "three turns of an hour at the least"
    assert 3 <= outcome.boots < 8, "some of them run where another has ended"
    assert play_array(suite, suite.runs[0], 8, 3, LIVE) == outcome, "played again it comes to the same"


def test_what_the_deadline_leaves_no_time_for_is_late_and_told_so() -> None:
    suite = suite_of("calm", 1, 3)
    outcome = play_array(suite, suite.runs[0], 8, 1, LIVE)
    assert outcome.end_h is None
    assert 1 <= outcome.done < 8


def test_no_two_tasks_have_a_machine_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from autopilot_lab.backtest import array_play

    step, most = array_play._Array._step, [0]

    def look(self: array_play._Array, tick: int) -> float:
        last_s = step(self, tick)
        held = [machine for task in self._tasks for machine in task.state.machines]
        assert len(held) == len(set(held)), held
        most[0] = max(most[0], len(held))
        return last_s

    monkeypatch.setattr(array_play._Array, "_step", look)
    suite = suite_of("calm", 1, 6)
    play_array(suite, suite.runs[0], 12, 6, LIVE)
    assert most[0] > 1


def test_scores_compare_costs_only_where_no_more_are_late() -> None:
    suite = suite_of("calm", 1, 4)
    costed, narrow, wide = run_arrays(ArrayPlan((suite,), 6, LIVE), [(0, 0)], parse_widths("1,6"), jobs=1)
    assert (costed.over_costed, costed.late, costed.done) == (1.0, 0, 1.0)
    assert (narrow.late, narrow.over_costed, narrow.mean_end_h) == (1, None, None)
    assert wide.over_costed == pytest.approx(wide.mean_cost / costed.mean_cost)


def test_the_command_prints_a_row_for_each_width(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["backtest", "--synthetic", "calm", "--tasks", "4", "--parallel", "2", "--runs", "1", "--jobs", "1"]
    assert run([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["arrays"]) == (4, 1)
    assert [row["parallel"] for row in told["widths"]] == ["costed", 2]
    assert run(asked) == 0
    shown = capsys.readouterr().out
    assert "arrays of 4 tasks" in shown
    assert "costed" in shown


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tasks", "0"], "--tasks cannot be 0"),
        (["--tasks", "4", "--ideal"], "as live"),
        (["--tasks", "4", "--policy", "greedy"], "own policy"),
        (["--parallel", "4"], "--parallel is for arrays"),
        (["--tasks", "4", "--parallel", "x"], "--parallel cannot be 'x'"),
    ],
)
def test_what_cannot_be_played_is_refused(more: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest", "--synthetic", "calm", *more]) != 0
    assert says in capsys.readouterr().err


def test_widths_are_numbers() -> None:
    assert parse_widths("1, 4,4") == (None, 1, 4)
    with pytest.raises(UserError):
        parse_widths("0")
