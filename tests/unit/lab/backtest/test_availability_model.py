"""The model of one market that is on or off, followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autopilot_lab.backtest.availability import AvailabilityView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import Perturbation
from autopilot_lab.backtest.play import Conditions, estimated_job, play
from autopilot_lab.backtest.suite import Job, Suite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import availability_body

N, S, D, P = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.PARK

Seen = list[dict[str, Any]]


def scripted(suite: Suite, answers: Sequence[Choice], conditions: Conditions | None = None) -> tuple[Outcome, Seen]:
    """Plays the first run by a script, whose last answer repeats; also what was seen in each tick."""
    seen: Seen = []

    def choose(view: AvailabilityView) -> Choice:
        seen.append({name: getattr(view, name) for name in AvailabilityView.__slots__})
        return answers[min(view.tick, len(answers) - 1)]

    return play(suite, suite.runs[0], lambda _config, _job: choose, conditions or Conditions()), seen


def test_a_start_costs_its_restart_and_whole_ticks_are_billed() -> None:
    outcome, seen = scripted(suite_from(availability_body("1" * 12)), [S])
    # Half of the first of five ticks is restart.
    assert outcome.status == "finished"
    assert outcome.decisions == 5
    assert (outcome.cost, outcome.lost, outcome.spot) == pytest.approx((5.0, 0.5, 4.5))
    assert [tick["work_left_s"] / 3600 for tick in seen] == [4, 3.5, 2.5, 1.5, 0.5]
    assert [tick["pending_s"] for tick in seen] == [0, 0, 0, 0, 0]
    assert [tick["ticks_left"] for tick in seen] == [8, 7, 6, 5, 4]


def test_a_preemption_is_seen_before_the_choice() -> None:
    outcome, seen = scripted(suite_from(availability_body("1101111111")), [S, S, N, S])
    assert [tick["running"] for tick in seen[:5]] == [N, S, N, N, S]
    assert [tick["spot_available"] for tick in seen[:4]] == [True, True, False, True]
    assert (outcome.pauses, outcome.migrations) == (1, 0)
    # Ticks 0 and 1 earn 1.5 h, then a second restart: 0.5 + 1 + 1 from tick 3 on.
    assert outcome.decisions == 6
    assert outcome.cost == pytest.approx(5.0)


def test_a_restart_longer_than_a_tick_is_replaced_by_the_next_one() -> None:
    suite = suite_from(availability_body("1" * 12, runs=[[0, 0, 12, 2, 10, 1.5]]))
    outcome, seen = scripted(suite, [S, D])
    assert [tick["pending_s"] / 3600 for tick in seen] == [0, 0.5, 0.5, 0, 0]
    # One tick of spot and one on demand earn nothing; then 0.5 + 1 + 1.
    assert outcome.decisions == 5
    assert outcome.cost == pytest.approx(1 + 4 * 3)
    assert outcome.migrations == 1
    assert outcome.lost == pytest.approx(1 + 3 + 1.5)


def test_stopping_forgets_the_pending_restart_but_no_work() -> None:
    outcome, seen = scripted(suite_from(availability_body("1" * 12)), [S, N, N, S])
    assert seen[3]["work_left_s"] == pytest.approx(3.5 * 3600)
    assert outcome.decisions == 3 + 4
    assert outcome.cost == pytest.approx(5.0)


def test_the_deadline_s_own_tick_is_in_time_and_the_next_is_late() -> None:
    suite = suite_from(availability_body("1" * 12))
    assert scripted(suite, [N, N, N, S])[0].status == "finished"
    assert scripted(suite, [N, N, N, N, S])[0].status == "late"
    never = scripted(suite, [N])[0]
    assert (never.status, never.decisions, never.cost) == ("late", 10, 0)


def test_giving_up() -> None:
    suite = suite_from(availability_body("1" * 12))
    assert scripted(suite, [P])[0].status == "refused"
    parked = scripted(suite, [S, P])[0]
    assert (parked.status, parked.decisions) == ("parked", 2)
    assert parked.cost == pytest.approx(1.0)


@pytest.mark.parametrize("answer", [S, Choice.KEEP])
def test_an_answer_that_cannot_be_is_a_defect(answer: Choice) -> None:
    with pytest.raises(ValueError, match=r"spot was chosen|not an answer"):
        scripted(suite_from(availability_body("0" * 12)), [answer])


def test_a_market_seen_late_refuses_what_is_gone() -> None:
    conditions = Conditions(perturbation=Perturbation(lag_ticks=1))
    outcome, seen = scripted(suite_from(availability_body("101111111111")), [S, S, N, S], conditions)
    assert [tick["spot_available"] for tick in seen[:4]] == [True, True, False, True]
    # In tick 1 spot was believed to be there: nothing ran, nothing was billed.
    assert [tick["running"] for tick in seen[:4]] == [N, N, N, N]
    assert outcome.cost == pytest.approx(1 + 4)


def test_a_move_that_is_refused_leaves_what_runs() -> None:
    conditions = Conditions(perturbation=Perturbation(vanish=0.5))
    suite = suite_from(availability_body("1" * 12))
    outcome, seen = scripted(suite, [S, D, D, D, D], conditions)
    assert outcome.status == "finished"
    moved = [tick["running"] for tick in seen]
    assert N not in moved[1:]
    assert moved == sorted(moved, key=[N, S, D].index)


def test_the_true_work_lies_within_the_error_of_the_told_one() -> None:
    body = availability_body("1" * 40, runs=[[0, start, 12, 4, 10, 0.5] for start in range(20)])
    suite = suite_from(body)
    conditions = Conditions(budget_share=0.5, perturbation=Perturbation(estimate_error=0.2))
    jobs: list[Job] = [estimated_job(suite, run, conditions) for run in suite.runs]
    assert {round(4 * 3600 / job.work_s, 9) for job in jobs} == {0.8, 1.2}
    assert {job.budget for job in jobs} == {0.5 * 15.0}
    assert jobs == [estimated_job(suite, run, conditions) for run in suite.runs]
