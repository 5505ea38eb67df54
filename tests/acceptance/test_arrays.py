"""An array by the command line, on each market, with a daemon that is killed: every task's outputs are there once."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.cli.client import Json
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, command, is_settled, market_events, show, until

pytestmark = pytest.mark.slow

JOB = """
name = "sweep"
image = "autopilot/demo:1"
run = 'mkdir -p out && echo "$LR in $AUTOPILOT_TASK of $AUTOPILOT_TASKS" >> out/result.txt && sleep 2'
workdir = "/workspace"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "5m"
[budget]
total = "$5.00"
[outputs]
paths = ["out"]
[array]
from = "values.csv"
parallel = 2
"""


def array_of(theatre: Theatre) -> Json:
    return dict(show(theatre, "sweep")["job"])


def tasks_of(theatre: Theatre) -> list[Json]:
    return list(theatre.client.get("/v1/jobs", array="sweep")["jobs"])


@pytest.mark.parametrize("market", ["vastai", "runpod"])
def test_every_task_s_outputs_are_there_once(market: str, tmp_path: Path) -> None:
    limits = {"AUTOPILOT_LIMITS__MAX_LAUNCHES_PER_HOUR": "100"}
    with a_theatre((market,), limits) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        (tmp_path / "sweep.toml").write_text(JOB)
        (tmp_path / "values.csv").write_text('LR\n0.1\n"a ""b"", c"\n$HOME\n0.4\n')
        done = command(theatre, "submit", str(tmp_path / "sweep.toml"))
        assert done.returncode == 0, done.stderr
        assert "4" in done.stdout
        until(lambda: array_of(theatre)["tasks"]["running"], "a task runs")
        theatre.kill_daemon()
        theatre.start_daemon()
        until(lambda: array_of(theatre)["status"] == "succeeded", "the array has succeeded")
        assert "sweep/3" in command(theatre, "ps", "sweep").stdout
        assert "4: 4 succeeded" in command(theatre, "show", "sweep").stdout
        assert command(theatre, "logs", "sweep/1").returncode == 0
        assert "one of its tasks" not in command(theatre, "why", "sweep").stderr
        pulled = command(theatre, "pull", "sweep", str(tmp_path / "got"), "--all")
        assert pulled.returncode == 0, pulled.stderr
        lines = [(tmp_path / "got" / str(n) / "out" / "result.txt").read_text() for n in range(4)]
        assert lines == [
            "0.1 in 0 of 4\n", 'a "b", c in 1 of 4\n', "$HOME in 2 of 4\n", "0.4 in 3 of 4\n",
        ]  # fmt: skip
        until(lambda: all(is_settled(theatre, show(theatre, f"sweep/{n}")) for n in range(4)), "bills")
        posted = [Decimal(task["posted"]) for task in tasks_of(theatre)]
        assert Decimal(array_of(theatre)["posted"]) == sum(posted) > 0
        if market == "vastai":
            made = Counter(event["label"] for event in market_events(theatre, "instance.created"))
            assert set(made.values()) == {1}, "no create was sent twice"
