"""Suite files are read exactly, and what is wrong in one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot_lab.backtest.suite import AvailabilitySuite, BidSuite, on_demand_cost
from autopilot_lab.backtest.suite_file import read_suite, suite_from
from tests.unit.lab.backtest.small_suites import availability_body, bid_body


def test_run_lengths_become_a_byte_a_tick() -> None:
    suite = suite_from(availability_body("0111001011"))
    assert isinstance(suite, AvailabilitySuite)
    assert suite.traces == (bytes([0, 1, 1, 1, 0, 0, 1, 0, 1, 1]),)
    assert suite.runs[0].work_s == 4 * 3600


def test_steps_become_a_floor_a_tick() -> None:
    suite = suite_from(bid_body(floors={"a": [1.0] * 30}, ticks=30) | {"floors": {"a": [[0, 0.5], [3, 0.75]]}})
    assert isinstance(suite, BidSuite)
    assert list(suite.floors[0]) == [0.5] * 3 + [0.75] * 27


def test_columns_may_stand_in_any_order() -> None:
    rows: dict[str, Any] = {"columns": ["pay", "deadline_h", "work_h", "start"], "runs": [["clearing", 6, 3, 2]]}
    suite = suite_from(bid_body(**rows))
    assert isinstance(suite, BidSuite)
    (run,) = suite.runs
    assert (run.start, run.work_s, run.deadline_s, run.pays) == (2, 10800, 21600, "clearing")


def test_the_cost_on_demand() -> None:
    one = suite_from(availability_body())
    # 4 h of work and half an hour of restart take five ticks.
    assert on_demand_cost(one.config, one.runs[0]) == pytest.approx(5 * 3.0)
    bids = suite_from(bid_body())
    assert on_demand_cost(bids.config, bids.runs[0]) == pytest.approx(7 * 0.5 * 3.1)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "its kind is None"),
        ({"kind": "futures"}, "its kind is 'futures'"),
        (availability_body(runs=[[0, 0, 10, 4, 8]]), "runs.0: a row has 6 columns"),
        (availability_body(runs=[]), "runs: "),
        (availability_body(runs=[[1, 0, 10, 4, 8, 0.5]]), "runs.0: the window lies outside its trace"),
        (availability_body(runs=[[0, 8, 10, 4, 8, 0.5]]), "runs.0: the window lies outside its trace"),
        (availability_body(runs=[[0, 0, 7, 4, 8, 0.5]]), "runs.0: the window ends before the deadline"),
        (availability_body(runs=[[0, 0, 10, 8, 8, 0.5]]), "not even on demand"),
        (availability_body(runs=[[0, 0, 10, "4", 8, 0.5]]), "runs.0.work_h: "),
        (availability_body(tick_s=0), "tick_s: "),
        (availability_body(spot_rate=float("nan")), "spot_rate: "),
        (availability_body(traces={"zone": {"first": 2, "runs": [16]}}), "traces.zone.first: "),
        (bid_body(runs=[[0, 3, 6, "auction"]]), "runs.0.pay: "),
        (bid_body(runs=[[20, 3, 6, "bid"]]), "runs.0: the floors end before the deadline"),
        (bid_body() | {"floors": {"a": [[1, 0.5]]}}, "floors.a: steps are"),
        (bid_body() | {"floors": {"a": [[0, 0.5], [0, 0.6]]}}, "floors.a: step [0, 0.5] is out of order"),
        (bid_body() | {"floors": {"a": [[0, -1.0]]}}, "floors.a: step [0, -1]"),
    ],
)
def test_what_is_wrong_is_named(body: Any, says: str) -> None:
    with pytest.raises(UserError) as error:
        suite_from(body)
    assert says in error.value.message


def test_a_file_that_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        read_suite(tmp_path / "missing.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_suite(broken)
    broken.write_text(json.dumps({"kind": "x"}))
    with pytest.raises(UserError, match=r"broken\.json: not a suite"):
        read_suite(broken)
