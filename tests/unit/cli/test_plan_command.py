"""``autopilot plan``, what ``submit`` shows of a plan, and the ways that ``why`` tabulates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autopilot.cli.main import run
from tests.unit.cli.sample_daemon import Daemon, sample

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *argv: str, code: int = 0) -> str:
    assert run(argv) == code
    out, err = capsys.readouterr()
    return out + err


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text("x")
    return str(path)


def a_plan(**changes: Any) -> Any:
    body = sample("plan")
    return body | {"plan": body["plan"] | changes}


def test_a_plan_shows_cost_likelihood_and_what_else_it_could_cost(daemon: Daemon, capsys: Capture, file: str) -> None:
    daemon.answers["POST /v1/jobs"] = (200, sample("plan"))
    out = printed(capsys, "plan", file, "--min-probability", "0.7")
    assert daemon.requests[0][2] == {"toml": "x", "source": file, "dry_run": True, "min_probability": 0.7}
    assert "expected cost  $0.41 ($0.36 to $0.52 in 8 of 10 markets)" in out
    assert "verdict        on track" in out
    assert "on time        100% likely" in out
    assert "preemptions    0.3 expected" in out
    assert "on demand      $0.58" in out
    assert "list price     $3.44 (A100 SXM: AWS On-Demand, $3.44/h per GPU (2025-04-28))" in out
    assert json.loads(printed(capsys, "plan", file, "--json")) == sample("plan")


def test_a_tight_plan_shows_its_worst_tenth_beside_the_mean(daemon: Daemon, capsys: Capture, file: str) -> None:
    daemon.answers["POST /v1/jobs"] = (200, a_plan(verdict="tight"))
    assert "worst tenth    $0.52 or more; the expected cost is the mean of all" in printed(capsys, "plan", file)
    daemon.answers["POST /v1/jobs"] = (200, a_plan(verdict="tight", forecast=None))
    assert "worst tenth" not in printed(capsys, "plan", file)
    daemon.answers["POST /v1/jobs"] = (200, sample("plan"))
    assert "worst tenth" not in printed(capsys, "plan", file)


def test_a_plan_that_submit_would_refuse_exits_with_4(daemon: Daemon, capsys: Capture, file: str) -> None:
    bad = a_plan(verdict="infeasible", refusal="only 3% likely\x1b[2J", ways_out=["more budget: $9.00", "wait"])
    daemon.answers["POST /v1/jobs"] = (200, bad)
    for words in (("plan", file), ("submit", file, "--dry-run")):
        out = printed(capsys, *words, code=4)
        assert "verdict        infeasible: only 3% likely[2J" in out
        assert out.index("alternative    more budget: $9.00") < out.index("alternative    wait")
    assert json.loads(printed(capsys, "plan", file, "--json", code=4)) == bad
    daemon.answers["POST /v1/jobs"] = (402, {"detail": "only 3% likely", "hint": "more budget: $9.00; wait"})
    out = printed(capsys, "submit", file, code=4)
    assert out == "error: only 3% likely\nhint: more budget: $9.00; wait\n"


def test_a_plan_that_says_little(daemon: Daemon, capsys: Capture, file: str) -> None:
    little = a_plan(forecast=None, verdict=None, deadline=None, expected_cost=None, list_price_cost=None, offers=[])
    daemon.answers["POST /v1/jobs"] = (200, little)
    out = printed(capsys, "plan", file)
    assert "none: the job has no deadline" in out
    assert "likely" not in out
    assert "list price     -" in out


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_probability_is_one(daemon: Daemon, capsys: Capture, file: str, share: str) -> None:
    assert "--min-probability" in printed(capsys, "plan", file, "--min-probability", share, code=2)
    assert daemon.requests == []


OPTION = {
    "option": "wait",
    "cost": "0.4800",
    "bid": None,
    "provider": None,
    "machine_id": None,
    "refused": None,
    "chosen": 0,
}
OPTIONS = [
    OPTION | {"refused": "deadline"},
    OPTION
    | {"option": "spot", "cost": "0.3912", "bid": "0.311", "provider": "vastai", "machine_id": "4711", "chosen": 1},
    OPTION
    | {
        "option": "on_demand",
        "cost": None,
        "bid": "0.52",
        "provider": "vastai",
        "machine_id": "9",
        "refused": "budget",
    },
]


def test_why_tabulates_the_ways_and_keeps_the_other_notes(daemon: Daemon, capsys: Capture) -> None:
    body = sample("why")
    body["decisions"][0]["notes"] += [{"topic": "option", "numbers": way} for way in OPTIONS]
    daemon.answers["GET /v1/jobs/bert-qa/why"] = (200, body)
    rows = [" ".join(line.split()) for line in printed(capsys, "why", "bert-qa").splitlines()]
    assert "OPTION EXPECTED COST AT WHERE" in rows
    assert "wait $0.4800 - - refused: deadline" in rows
    assert "spot $0.3912 $0.311/h vastai machine 4711 chosen" in rows
    assert "on demand - $0.52/h vastai machine 9 refused: budget" in rows
    assert " ".join(rows).count("Expected cost: dollars from now to the job's end") == 1
    assert any("saw re bid against waiting: floor $0.33/h" in row for row in rows)
    assert not any(row.startswith("saw way") for row in rows)
    assert json.loads(printed(capsys, "why", "bert-qa", "--json")) == body
