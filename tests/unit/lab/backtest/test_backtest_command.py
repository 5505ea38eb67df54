"""The command as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autopilot.cli.main import run
from tests.unit.lab.backtest.small_suites import random_availability_body, random_bid_body


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(random_availability_body(1)))
    return str(path)


def test_json(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest", "--suite", suite, "--policy", "greedy,on-demand", "--jobs", "1", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["suite"], body["runs"]) == ("small", 24)
    assert [row["policy"] for row in body["policies"]] == ["greedy", "on-demand", "optimal"]
    assert body["policies"][1]["over_on_demand"] == pytest.approx(1.0)
    assert body["policies"][0]["over_optimal"] > 1


@pytest.mark.slow
def test_table_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "bids.json", tmp_path / "out.html"
    path.write_text(json.dumps(random_bid_body(2)))
    argv = ["backtest", "--suite", str(path), "--runs", "8", "--jobs", "1", "--budget-share", "0.5"]
    assert run([*argv, "--report", str(page)]) == 0
    out = capsys.readouterr().out
    assert "small bids: 8 runs" in out
    assert "over the optimum, by deadline" in out
    assert "floor-markup: of " in out
    assert page.read_text().startswith("<!doctype html>")


def test_each_kind_of_auction_on_the_same_floors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bids.json"
    path.write_text(json.dumps(random_bid_body(2)))
    costs = {}
    for auction in ("pay-as-bid", "uniform", "cap"):
        argv = ["backtest", "--suite", str(path), "--auction", auction, "--policy", "floor-markup:markup=1.3"]
        assert run([*argv, "--ideal", "--jobs", "1", "--json"]) == 0
        body = json.loads(capsys.readouterr().out)
        costs[auction] = body["policies"][0]["mean_cost"]
    assert costs["uniform"] < costs["pay-as-bid"]
    assert costs["uniform"] <= costs["cap"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--auction", "uniform"], "--auction is of suites of bids"),
        (["--policy", "best"], "unknown policy 'best'"),
        (["--policy", "fixed-bid"], "does not play on suites of kind availability"),
        (["--runs", "some"], "--runs cannot be 'some'"),
        (["--vanish", "2"], "--vanish cannot be 2"),
        (["--budget-share", "-1"], "--budget-share cannot be -1"),
        (["--jobs", "0"], "--jobs 1 or more"),
        (["--report", "/no/such/directory/x.html"], "cannot write"),
    ],
)
def test_mistakes_are_said_in_one_line(
    suite: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backtest", "--suite", suite, *options]) != 0
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err


def test_a_missing_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest", "--suite", "nowhere.json"]) == 2
    assert "cannot read the suite nowhere.json" in capsys.readouterr().err
