"""The model of machines with floors, followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import Perturbation
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.suite import BidSuite, Pays, Suite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import bid_body

N, K, D, P = Choice.NONE, Choice.KEEP, Choice.ON_DEMAND, Choice.PARK
A1, A2, B1 = Spot(0, 1.0), Spot(0, 2.0), Spot(1, 1.0)

FIELDS = (
    "tick",
    "ticks_left",
    "work_left_s",
    "safe_left_s",
    "running",
    "machine",
    "bid",
    "is_set_up",
    "pending_s",
    "spent",
)


def scripted(
    suite: Suite, answers: Sequence[Choice | Spot], conditions: Conditions | None = None
) -> tuple[Outcome, list[dict[str, Any]]]:
    """Plays the first run by a script, whose last answer repeats; also what was seen in each tick."""
    seen: list[dict[str, Any]] = []

    def choose(view: BidView) -> Choice | Spot:
        seen.append({name: getattr(view, name) for name in FIELDS} | {"floors": list(view.floors)})
        return answers[min(view.tick, len(answers) - 1)]

    return play(suite, suite.runs[0], lambda _config, _job: choose, conditions or Conditions()), seen


def hours(seen: list[dict[str, Any]], name: str) -> list[float]:
    return [tick[name] / 3600 for tick in seen]


def test_set_up_then_work_paying_the_bid_and_the_disk() -> None:
    outcome, seen = scripted(suite_from(bid_body()), [A2])
    # A tick of set-up, six of work.
    assert (outcome.status, outcome.decisions) == ("finished", 7)
    assert outcome.storage == pytest.approx(7 * 0.05)
    assert (outcome.spot, outcome.lost) == pytest.approx((6 * 1.0, 1.0))
    assert hours(seen, "work_left_s") == [3, 3, 2.5, 2, 1.5, 1, 0.5]
    assert hours(seen, "safe_left_s") == [3, 3, 3, 2, 2, 1, 1]
    assert [tick["running"] for tick in seen] == [N] + [Choice.SPOT] * 6


def test_paying_the_clearing_price() -> None:
    outcome, _ = scripted(suite_from(bid_body(runs=[[0, 3, 6, "clearing"]])), [A2])
    assert outcome.cost == pytest.approx(7 * 0.5 * (1.0 + 0.1))


def test_the_next_floor_decides_and_a_pause_throws_back_to_the_checkpoint() -> None:
    floors = [1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.0, 1.0] + [1.0] * 22
    outcome, seen = scripted(suite_from(bid_body({"a": floors})), [A1])
    # The choice of tick 4 meets the floor of tick 5.
    assert [tick["floors"][0] for tick in seen[:7]] == floors[:7]
    assert hours(seen, "work_left_s")[:7] == [3, 3, 2.5, 2, 1.5, 2, 1.75]
    assert [tick["running"] for tick in seen[4:7]] == [Choice.SPOT, K, Choice.SPOT]
    assert outcome.pauses == 1
    # Ten ticks of disk; nine of compute: one of set-up, half of one of resuming, one thrown back.
    assert outcome.decisions == 10
    assert outcome.storage == pytest.approx(10 * 0.05)
    assert outcome.spot + outcome.lost == pytest.approx(9 * 0.5)
    assert outcome.lost == pytest.approx(0.5 + 0.25 + 0.5)


def test_a_planned_move_saves_first_and_repeats_the_setup() -> None:
    suite = suite_from(bid_body({"a": [1.0] * 30, "b": [0.5] * 30}))
    outcome, seen = scripted(suite, [A1, A1, B1])
    assert hours(seen, "work_left_s")[:5] == [3, 3, 2.5, 2.5, 2]
    assert [tick["machine"] for tick in seen[:4]] == [None, 0, 0, 1]
    assert (outcome.migrations, outcome.pauses) == (1, 0)
    assert outcome.decisions == 2 + 1 + 5


def test_a_machine_that_was_won_and_lost_before_it_ran_is_set_up() -> None:
    floors = [1.0, 2.0, 1.0] + [1.0] * 27
    outcome, seen = scripted(suite_from(bid_body({"a": floors})), [A1])
    assert [tick["running"] for tick in seen[:3]] == [N, K, Choice.SPOT]
    assert [tick["is_set_up"] for tick in seen[:3]] == [False, True, True]
    # What follows is a resume.
    assert hours(seen, "work_left_s")[:4] == [3, 3, 2.75, 2.25]
    assert outcome.pauses == 0
    assert outcome.storage == pytest.approx(outcome.decisions * 0.05)


def test_a_bid_that_never_won_has_set_up_nothing() -> None:
    _, seen = scripted(suite_from(bid_body()), [Spot(0, 0.5), A1])
    assert [tick["running"] for tick in seen[:3]] == [N, K, Choice.SPOT]
    assert [tick["is_set_up"] for tick in seen[:3]] == [False, False, True]
    assert hours(seen, "work_left_s")[:4] == [3, 3, 3, 2.5]


@pytest.mark.parametrize("between", [D, N])
def test_what_was_set_up_is_forgotten_with_its_machine(between: Choice) -> None:
    _, seen = scripted(suite_from(bid_body()), [A1, A1, between, between, A1])
    assert [tick["is_set_up"] for tick in seen[:6]] == [False, True, True, False, False, True]
    assert hours(seen, "pending_s")[5] == 0.0
    assert hours(seen, "work_left_s")[4] == hours(seen, "work_left_s")[5], "a start, and no resume"


def test_on_demand_pays_for_its_disk_too_and_needs_its_set_up() -> None:
    outcome, _ = scripted(suite_from(bid_body()), [D])
    assert outcome.cost == pytest.approx(7 * 0.5 * 3.1)
    assert outcome.cost == pytest.approx(outcome.on_demand + outcome.storage + outcome.lost)


def test_keeping_pauses_and_letting_go_costs_nothing_more() -> None:
    kept, seen = scripted(suite_from(bid_body()), [A1, A1, K, K, N])
    assert hours(seen, "work_left_s")[2:5] == [2.5, 3, 3]
    assert kept.storage == pytest.approx(4 * 0.05)
    assert kept.pauses == 1
    released, seen = scripted(suite_from(bid_body()), [A1, A1, N])
    assert hours(seen, "work_left_s")[3] == 2.5
    assert released.storage == pytest.approx(2 * 0.05)


@pytest.mark.parametrize("answers", [[K], [D, K], [Choice.SPOT]])
def test_an_answer_that_cannot_be_is_a_defect(answers: list[Choice]) -> None:
    with pytest.raises(ValueError, match="not an answer"):
        scripted(suite_from(bid_body()), answers)


def test_the_past_can_be_read_and_the_future_cannot() -> None:
    floors = [float(tick + 1) for tick in range(40)]
    read: list[list[float]] = []

    def choose(view: BidView) -> Choice:
        read.append(list(view.history(0, 3)))
        assert view.ticks_seen == 11 + view.tick
        assert list(view.history(0, 10**6)) == floors[: view.ticks_seen]
        return N

    suite = suite_from(bid_body({"a": floors}, runs=[[10, 3, 6, "bid"]]))
    play(suite, suite.runs[0], lambda _config, _job: choose, Conditions())
    assert read[:2] == [[9.0, 10.0, 11.0], [10.0, 11.0, 12.0]]


def test_floors_seen_late() -> None:
    floors = [float(tick + 1) for tick in range(30)]
    lagging = Conditions(perturbation=Perturbation(lag_ticks=1))
    _, seen = scripted(suite_from(bid_body({"a": floors}, runs=[[5, 3, 6, "bid"]])), [N], lagging)
    assert [tick["floors"][0] for tick in seen[:3]] == [5.0, 6.0, 7.0]
    _, seen = scripted(suite_from(bid_body({"a": floors})), [N], lagging)
    assert [tick["floors"][0] for tick in seen[:3]] == [1.0, 1.0, 2.0]


def test_a_refused_escalation_leaves_the_spot_machine_running() -> None:
    conditions = Conditions(perturbation=Perturbation(vanish=0.5))
    outcome, seen = scripted(suite_from(bid_body()), [A1, D], conditions)
    assert outcome.status == "finished"
    assert N not in [tick["running"] for tick in seen[1:]]
    assert K not in [tick["running"] for tick in seen]


def test_giving_up() -> None:
    assert scripted(suite_from(bid_body()), [P])[0].status == "refused"
    assert scripted(suite_from(bid_body()), [A1, P])[0].status == "parked"


def under(pays: Pays) -> Suite:
    """The small suite, its bids up and down within what wins."""
    suite = suite_from(bid_body())
    assert isinstance(suite, BidSuite)
    return replace(suite, runs=tuple(replace(run, pays=pays) for run in suite.runs))


def test_where_all_pay_one_price_a_bid_is_but_a_limit() -> None:
    outcome, _ = scripted(under("clearing"), [A1, A2])
    alone, _ = scripted(under("clearing"), [A2])
    assert (outcome.status, outcome.spot, outcome.lost) == (alone.status, alone.spot, alone.lost), "it is changed live"
    assert outcome.spot < scripted(under("bid"), [A2])[0].spot


def test_a_cap_is_changed_by_a_stop_that_loses_no_work() -> None:
    as_it_is, _ = scripted(under("cap"), [A2])
    changed, _ = scripted(under("cap"), [A2, A2, A2, Spot(0, 3.0)])
    assert changed.pauses == as_it_is.pauses == 0
    assert changed.lost == pytest.approx(as_it_is.lost + 0.25), "a resume of a quarter of an hour"
    assert as_it_is.spot == pytest.approx(scripted(under("clearing"), [A2])[0].spot)
