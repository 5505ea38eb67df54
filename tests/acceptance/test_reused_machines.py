"""An array on both markets, with outbids, lost hosts, a black hole and daemons that are killed: what it comes to."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from autopilot.client.answer import Json
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import match_books
from tests.acceptance.stage import a_theatre, command, show, until
from tests.acceptance.test_preemption_soak import preempt

pytestmark = pytest.mark.slow

TASKS = int(os.environ.get("AUTOPILOT_TEST_TASKS", "20"))
"""More by the environment: ``AUTOPILOT_TEST_TASKS=200``."""
PARALLEL = 8 if TASKS >= 200 else 3
LEAST_SHARE = 0.8 if TASKS >= 200 else 0.5
"""Of the tasks that run without a boot of their own: each of the few blows weighs more among few tasks."""
SPEED = 20.0
"""Slower than other theatres: so many machines at once take their time on a busy test machine."""

BLOWS = ("kill", "outbid", "host", "kill", "outbid", "host", "kill")

JOB = """name = "many"
image = "autopilot/demo:1"
run = '''
mkdir {shared}/hole 2>/dev/null && touch "$AUTOPILOT_ROOT/black-hole"
test -e "$AUTOPILOT_ROOT/black-hole" && exit 1
echo $AUTOPILOT_TASK >> {shared}/ran; mkdir -p out
test -e out/result && test "$(cat out/result)" != $AUTOPILOT_TASK && exit 9
echo $AUTOPILOT_TASK > out/result; sleep 2'''
workdir = "/workspace"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "4m"
[budget]
total = "$50.00"
[outputs]
paths = ["out"]
[array]
count = {tasks}
parallel = {parallel}
"""
"""The first machine on which anything runs fails everything that runs there."""


def array_of(theatre: Theatre) -> Json:
    return dict(show(theatre, "many")["job"])


def are_done(theatre: Theatre, count: int) -> bool:
    return bool(array_of(theatre)["tasks"]["succeeded"] >= count)


def level(theatre: Theatre) -> None:
    """Few machines at vast.ai, and those of RunPod a little dearer: both are needed."""
    machines = [row for row in theatre.emu("machines")["machines"] if row["gpu_name"] == "RTX 4090"]
    machines.sort(key=lambda row: Decimal(row["floor"]))
    few = [row for row in machines if row["verified"]][: PARALLEL // 2]
    for row in machines:
        theatre.emu("full", {"machine_id": row["machine_id"], "full": row not in few})
    for row in few:
        theatre.emu("floor", {"machine_id": row["machine_id"], "price": "0.25"})
    for row in theatre.emu("runpod/machines")["machines"]:
        if row["gpu_type_id"] == "NVIDIA GeForce RTX 4090":
            theatre.emu("runpod/floor", {"machine_id": row["machine_id"], "price": "0.29"})


def is_all_billed(theatre: Theatre) -> bool:
    """A task whose machine is on its way out is an open job, and has no bill to wait for yet."""
    status = theatre.client.get("/v1/status")
    return bool(status["jobs_open"] == status["unbilled_leases"] == 0)


def running(theatre: Theatre) -> list[Json]:
    """Machines of tasks that are at work."""
    jobs = theatre.client.get("/v1/jobs", array="many")["jobs"]
    return [job["main"] for job in jobs if job["status"] == "running" and job["main"]]


def strike(theatre: Theatre, blow: str, rng: random.Random) -> None:
    lease = rng.choice(until(lambda: running(theatre), "a task runs"))
    if blow == "outbid":
        preempt(theatre, lease)
    elif blow == "host":
        machine = "runpod/host" if lease["provider"] == "runpod" else "host"
        theatre.emu(machine, {"machine_id": machine_id_of(theatre, lease), "state": "vanished"})
    else:
        theatre.kill_daemon()
        theatre.start_daemon()


def machine_id_of(theatre: Theatre, lease: Json) -> str:
    rows = theatre.emu("runpod/instances" if lease["provider"] == "runpod" else "instances")["instances"]
    return str(next(row["machine_id"] for row in rows if str(row["id"]) == lease["instance_id"]))


def tasks_of(theatre: Theatre) -> list[Json]:
    found, after = list[Json](), ""
    while True:
        page = theatre.client.get("/v1/jobs", array="many", **({"after": after} if after else {}))
        found += page["jobs"]
        if page["next"] is None:
            return found
        after = page["next"]


def test_an_array_on_both_markets_comes_to_what_it_should(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "many.toml").write_text(JOB.format(shared=shared, tasks=TASKS, parallel=PARALLEL))
    rng = random.Random(7)
    limits = {
        "AUTOPILOT_LIMITS__MAX_LAUNCHES_PER_HOUR": "200",
        "AUTOPILOT_LIMITS__MAX_INSTANCES": "20",
        "AUTOPILOT_LIMITS__DAY": "50",
    }
    with a_theatre(("vastai", "runpod"), limits, SPEED) as theatre:
        theatre.start_market()
        level(theatre)
        theatre.start_daemon()
        done = command(theatre, "submit", str(tmp_path / "many.toml"))
        assert done.returncode == 0, done.stderr
        blows = ["kill", "outbid", "kill", "host", "kill"] if TASKS < 200 else BLOWS
        for number, blow in enumerate(blows, start=1):
            wanted = number * TASKS // (len(blows) + 1)
            until(partial(are_done, theatre, wanted), f"{wanted} are done", within_s=600)
            strike(theatre, blow, rng)
        until(lambda: array_of(theatre)["status"] == "succeeded", "the array has succeeded", within_s=900)
        pulled = command(theatre, "pull", "many", str(tmp_path / "got"), "--all", timeout_s=600)
        assert pulled.returncode == 0, pulled.stderr
        got = [(tmp_path / "got" / str(n) / "out" / "result").read_text() for n in range(TASKS)]
        assert got == [f"{n}\n" for n in range(TASKS)], "each task's output is there once, and is its own"
        until(lambda: is_all_billed(theatre), "the bills", within_s=600)
        assert match_books(theatre).holds, match_books(theatre).detail

        tasks = tasks_of(theatre)
        assert {task["status"] for task in tasks} == {"succeeded"}
        with closing(sqlite3.connect(theatre.root / "daemon" / "ledger.db")) as ledger:
            (nanos,) = ledger.execute("SELECT sum(amount_nano) FROM spend_daily").fetchone()
            last_uses = ledger.execute("SELECT job_id, lease_id, seq FROM lease_uses ORDER BY ordered_at").fetchall()
            reasons = ledger.execute("SELECT provider, reason FROM leases WHERE instance_id IS NOT NULL").fetchall()
        assert sum(Decimal(task["posted"]) for task in tasks) == Decimal(nanos) / 10**9 > 0
        own_boot = {job_id: seq == 0 for job_id, _, seq in last_uses}
        without = sum(not booted for booted in own_boot.values())
        ran = Counter((shared / "ran").read_text().split())
        print(f"{without} of {TASKS} without a boot of their own; {ran.total()} runs; {Counter(reasons)}")
        assert without >= LEAST_SHARE * TASKS
        assert {provider for provider, _ in reasons} == {"vastai", "runpod"}
        assert [reason for _, reason in reasons].count("bad_machine") == 1, "the black hole got one task"
