"""Bids against simple rules: which starts are scored, what is kept, and how a column is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.backtest.live import Live
from tools.bids import __main__ as command
from tools.bids.columns import cases
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
    wanted: dict[str, Any] = {"live": Live(), "clearing": False, "chosen_on": False, "share": (1, 1)} | asked
    found: list[tuple[int, float, str]] = []
    for case in cases(traces, **wanted):
        if case.market != "aws-m3-2015":
            break
        found.append((case.run.start // 288, case.deadline_h, case.run.pays))
    return found


def test_starts_in_the_second_half_are_scored_and_numbers_are_chosen_on_the_first(traces: Path) -> None:
    assert recorded(traces) == [(11, 4.0, "bid"), (11, 6.0, "bid")]
    assert recorded(traces, clearing=True) == [(11, 4.0, "clearing"), (11, 6.0, "clearing")]
    assert recorded(traces, chosen_on=True) == [(4, 4.0, "bid"), (4, 6.0, "bid")], "day 10 would end in the second half"


def a_kept(**changes: Any) -> Kept:
    costs = {"autopilot": 3.0, "floor x 1.1": 2.0, "on-demand": 9.0}
    values: dict[str, Any] = {
        "code": "c", "mode": "as live", "pays": "bid", "market": "m", "stretch": "1", "deadline_h": 30.0, "start": 1,
        "optimal": 2.0, "costs": costs, "late": (),
    }  # fmt: skip
    return Kept(**(values | changes))


def test_a_column_is_held_against_its_own_best_rule_and_the_best_that_was_never_late() -> None:
    rows = [a_kept(), a_kept(start=2, stretch="2", late=("floor x 1.1",))]
    shown = "\n".join(tables(rows))
    assert "floor x 1.1               1   2.000        3.000    0  1.500" in shown
    assert "on-demand              0.333" in shown
    assert "autopilot 1.500 of the optimum, the best single rule (floor x 1.1) 1.000: +50.0%" in shown


def test_what_is_known_is_not_played_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "kept.jsonl"
    asked = ["--traces", str(tmp_path / "none"), "--results", str(results), "--starts", "1", "--policy", "autopilot"]
    assert command.main([*asked, "--minutes", "0"]) == 0
    assert "0 starts played, and there are more" in capsys.readouterr().out
    first = next(cases(None, Live(), False, False, (1, 1)))
    place = ("as live", "bid", first.market, first.stretch, first.deadline_h, first.run.start)
    mode, pays, market, stretch, deadline_h, start = place
    append(
        results,
        a_kept(
            code=code_now(), mode=mode, pays=pays, market=market, stretch=stretch, deadline_h=deadline_h,
            start=start,
        ),
    )  # fmt: skip
    assert read(results)[0].case == command.place_of("as live", first) == place
