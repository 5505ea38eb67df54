"""Ten machines that save more than the line at home carries, with a real daemon, at real speed. It takes root."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from figures import Figure

from autopilot_lab.demo.theatre import Theatre
from tests.patience import eventually
from tests.relay import Relay, a_relay

MACHINES = 10
LINE_MBPS = 20
LINE_S = 240.0
SAVED_BYTES = 20 << 20
"""Of each machine, once a minute: 28 Mbit/s of all together."""
SAVES = """
import os, sys, time
from autopilot import checkpoint
os.makedirs("ckpt", exist_ok=True)
step = 0
while True:
    step += 1
    with open("ckpt/new", "wb") as file:
        file.write(os.urandom(int(sys.argv[1])))
    os.replace("ckpt/new", "ckpt/state")
    checkpoint.saved(step=step)
    time.sleep(60)
"""
JOB = """name = "saves-{number}"
image = "autopilot/demo:1"
run = "exec {python} {program} {bytes}"
workdir = "/workspace"
[resources]
gpu = "RTX 4090:1 | RTX 3090:1 | A100 PCIE:1 | A100 SXM4:1 | H100 SXM:1 | H100 PCIE:1 | L40S:1 | RTX A6000:1"
disk = "20GB"
[work]
estimate = "1h"
[budget]
total = "$30"
[checkpoint]
path = "ckpt"
interval = "1m"
"""


def measure(root: Path) -> list[Figure]:
    if os.geteuid() != 0:
        print("… left out: a network of its own for a machine takes root", file=sys.stderr)  # noqa: T201
        return []
    options = {"AUTOPILOT_BLOBS__OVER_SSH": "true", "AUTOPILOT_BLOBS__HOME_MBPS": str(LINE_MBPS)}
    options |= {"AUTOPILOT_LIMITS__MAX_INSTANCES": str(MACHINES), "AUTOPILOT_LIMITS__MAX_LAUNCHES_PER_HOUR": "60"}
    options |= {"AUTOPILOT_LIMITS__DAY": "1000", "AUTOPILOT_LIMITS__MONTH": "1000"}
    theatre = Theatre(root / "t", seed=1, speed=1.0, settings=options, market_options=("--ssh", "--no-rate-limits"))
    try:
        theatre.start_market()
        theatre.start_daemon()
        return asyncio.run(_fill_the_line(theatre, root))
    finally:
        theatre.stop()


async def _fill_the_line(theatre: Theatre, root: Path) -> list[Figure]:
    program = root / "saves.py"
    program.write_text(SAVES)
    for number in range(MACHINES):
        job = JOB.format(number=number, python=sys.executable, program=program, bytes=SAVED_BYTES)
        theatre.client.post("/v1/jobs", {"toml": job, "source": "job.toml", "dry_run": False})
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(a_relay("127.0.0.1", 1))
        line.slow_down(LINE_MBPS)
        await _put_between(theatre, line, stack)
        await eventually(lambda: asyncio.to_thread(_all_at_work, theatre), "all at work", 1)
        began, passed = time.monotonic(), line.passed
        watched = _Watched(theatre)
        while time.monotonic() - began < LINE_S:
            await asyncio.to_thread(watched.look)
            await asyncio.sleep(1)
        mbps = (line.passed - passed) * 8 / 1e6 / (time.monotonic() - began)
    return [
        Figure(f"{MACHINES} machines that save over one line of {LINE_MBPS} Mbit/s: what passes", [mbps], "Mbit/s"),
        Figure("… oldest permit that one of them has heard of", [watched.oldest_permit_s], "s", 300),
        Figure("… machines lost", [watched.lost], "", 1),
        Figure("… checkpoints that came home", [watched.checkpoints()], ""),
        Figure("… from tick to tick, at most", [watched.longest_tick_s], "s", 20),
        Figure("… memory of the daemon, at most", [watched.memory_mb(theatre.pids[0])], "MB", 512),
    ]


async def _put_between(theatre: Theatre, line: Relay, stack: AsyncExitStack) -> None:
    """Each machine is reached over that line, once it runs."""
    slowed: set[int] = set()
    while len(slowed) < MACHINES:
        for row in (await asyncio.to_thread(theatre.emu, "instances"))["instances"]:
            if row["ssh"]["port"] is None or row["id"] in slowed:
                continue
            slowed.add(row["id"])
            relay = await stack.enter_async_context(a_relay("127.0.0.1", row["ssh"]["port"], line))
            await asyncio.to_thread(theatre.emu, "login", {"instance_id": row["id"], "port": relay.port})
        await asyncio.sleep(1)


def _all_at_work(theatre: Theatre) -> bool:
    return all(job["status"] == "running" for job in theatre.client.get("/v1/jobs")["jobs"])


class _Watched:
    def __init__(self, theatre: Theatre) -> None:
        self._theatre = theatre
        self._ticks: list[datetime] = []
        self._written: dict[tuple[str, int], float] = {}
        """By lease and number of its orders: when they were first seen in the mailbox."""
        self.oldest_permit_s = 0.0

    @property
    def longest_tick_s(self) -> float:
        return max((b - a).total_seconds() for a, b in pairwise(self._ticks))

    @property
    def lost(self) -> int:
        rows = self._theatre.emu("instances")["instances"]
        return sum(row["destroyed_at"] is not None for row in rows)

    def checkpoints(self) -> int:
        jobs = self._theatre.client.get("/v1/jobs")["jobs"]
        return sum(1 + job["checkpoint"]["number"] for job in jobs if job["checkpoint"])

    def memory_mb(self, pid: int) -> float:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 1000

    def look(self) -> None:
        ticked = datetime.fromisoformat(self._theatre.client.get("/v1/status")["last_tick_at"])
        if [ticked] != self._ticks[-1:]:
            self._ticks.append(ticked)
        now = time.monotonic()
        for orders in (self._theatre.root / "daemon/blobs/jobs").glob("*/*/orders.json"):
            seq = json.loads(orders.read_bytes())["seq"]
            self._written.setdefault((orders.parent.name, seq), now)
            beat = orders.with_name("heartbeat.json")
            if not beat.exists():
                continue
            seen = json.loads(beat.read_bytes())["orders_seq_seen"]
            self.oldest_permit_s = max(self.oldest_permit_s, now - self._written.get((orders.parent.name, seen), now))
