"""The Trainer's callback in a job of a real daemon, on a sandbox market that gives notice before it takes a machine."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autopilot.client.answer import Json
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import show, submit, until
from tests.patience import PATIENCE_S
from tests.rehearsal.test_rehearse_frameworks import PROGRAMS, PYTHON, need

pytestmark = pytest.mark.slow

SPEED = 6.0
"""Slow enough for the 20 market seconds that a container has to end: half-second steps, and a save."""
LONG_S = 2 * PATIENCE_S
"""For each wait: it imports its packages meanwhile."""
STEPS = 6
"""Of work before the notice, and after the resume."""

JOB = """name = "noticed"
image = "autopilot/demo:1"
run = 'exec {python} {program} {witness}'
workdir = "/workspace"

[resources]
gpu = "A100 SXM4:1"
max_hourly = "$2.50"
disk = "20GB"

[work]
estimate = "2h"

[budget]
total = "$60.00"

[checkpoint]
path = "out"
interval = "4h"
"""


def read_witness(path: Path, word: str) -> list[int]:
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [int(row[1]) for row in rows if row[0] == word and len(row) > 1]


def outbid(theatre: Theatre) -> str:
    """By more than the job may pay, and nothing else is cheaper. Answers the rival's id."""
    (bid,) = theatre.emu("mithril/bids")["bids"]
    for pool in theatre.emu("mithril/auctions")["auctions"]:
        if (pool["region"], pool["instance_type"]) != (bid["region"], bid["instance_type"]):
            place = {"region": pool["region"], "instance_type": pool["instance_type"]}
            theatre.emu("mithril/rival", {**place, "limit": "900"})
    return str(theatre.emu("mithril/rival", {"bid_id": bid["id"], "limit": "800"})["id"])


def is_stopped(theatre: Theatre) -> bool:
    return any(event["kind"] == "machine.preempted" for event in theatre.emu("mithril/events")["events"])


def play(theatre: Theatre, witness: Path) -> Json:
    """Until it has gone on after the loss of its machine. Answers the job."""
    theatre.start_market()
    theatre.start_daemon()
    job_id = submit(theatre, JOB.format(python=PYTHON, program=PROGRAMS / "hf_noticed.py", witness=witness))

    def has_worked(starts: int) -> Any:
        at = read_witness(witness, "start")
        return len(at) >= starts and max(read_witness(witness, "step"), default=0) >= at[-1] + STEPS

    until(lambda: has_worked(1), "it works", LONG_S)
    rival = outbid(theatre)
    until(lambda: is_stopped(theatre), "its machine is taken", LONG_S)
    theatre.emu("mithril/rival", {"id": rival}, method="DELETE")
    until(lambda: has_worked(2), "it goes on", LONG_S)
    return show(theatre, job_id)


def test_where_the_market_gives_notice_at_most_one_step_is_done_twice() -> None:
    need("transformers")
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    theatre = Theatre(root, seed=1, speed=SPEED, markets=("mithril",))
    witness = root / "witness"
    try:
        body = play(theatre, witness)
    finally:
        theatre.stop()
        steps, starts = read_witness(witness, "step"), read_witness(witness, "start")
        shutil.rmtree(root, ignore_errors=True)
    assert [event["name"] for event in body["events"]].count("lease.notice") == 1, body["events"]
    assert len(starts) == 2
    assert starts[1] > STEPS, "it went on from its save"
    assert [step for step, times in Counter(steps).items() if times > 1][1:] == [], (starts, steps)
