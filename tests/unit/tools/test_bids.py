"""Bids against simple rules: which starts are scored, what is kept, and how a column is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from math import inf, isinf
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.play import Conditions, estimated_job
from autopilot_lab.backtest.suite import BidSuite
from autopilot_lab.backtest.suite_file import suite_from
from tools.bids import __main__ as command
from tools.bids.columns import FIELD, Asked, Case, cases
from tools.bids.kept import Kept, append, code_now, read
from tools.bids.report import tables

SUITE = {
    "kind": "bids", "name": "aws-m3-2015", "tick_s": 300, "ticks": 6000, "on_demand_rate": 1.0, "storage_rate": 0.01,
    "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600, "floors": {"a": [[0, 0.3]], "b": [[0, 0.4], [900, 0.5]]},
    "columns": ["start", "work_h", "deadline_h", "pay"],
    "runs": [[day * 288, 3, due, pay] for day in (4, 10, 11, 18) for due in (4, 6) for pay in ("bid", "clearing")],
}  # fmt: skip


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    (tmp_path / "aws-m3-2015.json").write_text(json.dumps(SUITE))
    return tmp_path


def recorded(traces: Path, **asked: Any) -> list[tuple[int, float, str]]:
    found: list[tuple[int, float, str]] = []
    for case in cases(traces, Asked(**asked)):
        if case.market != "aws-m3-2015":
            break
        found.append((case.run.start // 288, case.deadline_h, case.run.pays))
    return found


def test_starts_in_the_second_half_are_scored_and_numbers_are_chosen_on_the_first(traces: Path) -> None:
    assert recorded(traces) == [(11, 4.0, "bid"), (11, 6.0, "bid")]
    clearing = [(day, due, "clearing") for day in (11, 18) for due in (4.0, 6.0)]
    assert recorded(traces, clearing=True) == clearing, "no market is made up that pays what all pay"
    assert recorded(traces, half="choosing") == [(4, 4.0, "bid"), (4, 6.0, "bid")], (
        "day 10 would end in the second half"
    )


def a_kept(**changes: Any) -> Kept:
    costs = {"autopilot": 3.0, "floor x 1.1": 2.0, "floor x 1.02 kept": 2.5, "on-demand": 9.0}
    values: dict[str, Any] = {
        "code": "c", "mode": "as live", "pays": "bid", "market": "m", "stretch": "1", "deadline_h": 30.0, "start": 1,
        "optimal": 2.0, "costs": costs, "late": (),
    }  # fmt: skip
    return Kept(**(values | changes))


def test_a_column_is_held_against_a_rule_with_the_same_promise_and_the_best_rule_as_it_is() -> None:
    rows = [a_kept(), a_kept(start=2, stretch="2", late=("floor x 1.1",))]
    heading, _, row, *below = tables(rows)
    assert heading == "AWS's records of 2015, and older made-up markets: as live, pays its bid"
    assert row.split() == [
        "m", "30", "h", "2", "0.1250", "0", "0.1042", "0", "1.200", "1.20-", "1.20",
        "floor", "x", "1.1", "0.0833", "1", "1.500", "1.50-", "1.50",
    ]  # fmt: skip
    assert below == [
        "all columns: autopilot 1.500 of each one's best rule, 1.500 at the most",
        "all columns: autopilot 1.500 of the optimum, the best single rule (floor x 1.1) 1.000: +50.0%",
    ]


def test_the_best_rule_is_that_of_the_starts_that_numbers_are_chosen_on() -> None:
    other = {"autopilot": 3.0, "floor x 1.1": 2.0, "floor x 1.02 kept": 2.5, "on-demand": 1.0}
    lines = tables([a_kept(), a_kept(half="choosing", start=3, costs=other)])
    scored, chosen_on = (line for line in lines if line.startswith("m "))
    assert "on-demand" in scored
    assert "on-demand" in chosen_on
    assert "0.333" in scored, "by the scored starts, whatever it cost on the others"


def test_a_run_that_was_given_up_is_judged_by_the_work_that_it_did_and_by_its_budget() -> None:
    row = a_kept(market="budget", done={"autopilot": 0.5}, late=("autopilot",), over=("floor x 1.1",), deadline_h=48.0)
    heading, _, shown, *_ = tables([row])
    assert heading == "markets like the field: as live, pays its bid"
    assert "0.2500    1" in shown, "3 $ for half of 24 h"
    assert "on-demand" in shown, "the best rule of those that stay within the budget"


def test_what_copies_cost_is_held_against_one_alone_on_the_same_seeds() -> None:
    alone = a_kept(market="vast-like", deadline_h=36.0)
    dearer = {policy: cost * 1.2 for policy, cost in alone.costs.items()}
    lines = tables([alone, a_kept(market="self-play of 10", deadline_h=36.0, costs=dearer)])
    assert "self-play of 10, over one alone: autopilot 1.200, floor x 1.02 kept 1.200" in lines
    assert lines[-1].endswith("autopilot 1.200 of floor x 1.02 kept, 1.200 at the most")


def test_no_start_is_played_whose_estimate_submit_would_refuse() -> None:
    suite = suite_from(SUITE | {"runs": [[1200, 3, 3.34, "bid"]]})
    assert isinstance(suite, BidSuite)

    def case(off: float) -> Case:
        live = Live(estimate_error=0.0)
        found = replace(suite.runs[0], work_s=3 * 3600 * (1 + off))
        return Case("m", as_searched(suite, live), found, "1", Conditions(live=live))

    assert not case(0.0).would_be_refused
    assert case(0.1).would_be_refused, "3 h 18 min, a machine to start, due in 3 h 20 min"


@pytest.mark.slow
def test_columns_like_the_field_are_there_with_what_they_are_named_for() -> None:
    first: dict[tuple[str, float], Case] = {}
    for case in islice(cases(None, Asked()), 30):
        first.setdefault((case.market, case.deadline_h), case)
    found = {market for market, _ in first}
    contested = islice(cases(None, Asked(only=frozenset(["no deadline"]))), 3)
    assert len({estimated_job(each.suite, each.run, each.conditions).work_s for each in contested}) == 3
    assert found >= FIELD
    duds, bound = first["with duds", 36.0].conditions, first["budget", 48.0].conditions
    assert duds.live is not None
    assert (duds.live.duds, duds.live.refuses, bound.budget_share) == (0.3, True, 0.7)
    assert [first[f"self-play of {copies}", 36.0].copies for copies in (2, 5, 10)] == [2, 5, 10]
    assert isinf(first["no deadline", inf].run.deadline_s)
    unknown = first["no estimate", inf]
    assert isinf(estimated_job(unknown.suite, unknown.run, unknown.conditions).work_s)


@pytest.mark.slow
def test_every_column_can_be_played_under_the_policy_and_every_rule(tmp_path: Path) -> None:
    results = tmp_path / "kept.jsonl"
    asked = ["--traces", str(tmp_path / "none"), "--results", str(results), "--starts", "1", "--minutes", "60"]
    assert command.main([*asked, "--columns", "with duds,self-play of 2,two GPUs,budget,no deadline,no estimate"]) == 0
    kept = read(results)
    assert {one.market for one in kept} == {
        "with duds", "self-play of 2", "two GPUs", "budget", "no deadline", "no estimate",
    }  # fmt: skip
    assert not [one for one in kept if "autopilot" in (*one.over, *one.late) and one.market != "budget"]
    assert not [one for one in kept if "autopilot" in one.over or "floor x 1.02 kept" in one.over]


def test_what_is_known_is_not_played_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "kept.jsonl"
    asked = ["--traces", str(tmp_path / "none"), "--results", str(results), "--starts", "1", "--policy", "autopilot"]
    assert command.main([*asked, "--minutes", "0"]) == 0
    assert "0 starts played, and there are more" in capsys.readouterr().out
    first = next(cases(None, Asked()))
    place = command.place_of("scored", "as live", first)
    _, mode, pays, market, stretch, deadline_h, start = place
    append(
        results,
        a_kept(
            code=code_now(), mode=mode, pays=pays, market=market, stretch=stretch, deadline_h=deadline_h,
            start=start,
        ),
    )  # fmt: skip
    assert read(results)[0].case == place
