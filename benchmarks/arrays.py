"""An array of 10,000 tasks: accepted, listed in pages, cancelled. Real processes, as installed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import commands
from figures import Figure

from autopilot.cli.client import Json
from autopilot.domain.array import MOST_TASKS
from autopilot_lab.demo.theatre import Theatre

TIMEOUT_S = 300.0
JOB = f"""name = "many"
image = "autopilot/demo:1"
run = "true"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "10m"
[budget]
total = "$1000"
[array]
count = {MOST_TASKS}
parallel = 4
"""


def measure(root: Path) -> list[Figure]:
    theatre = Theatre(root, seed=1, speed=1.0, tick_s=commands.TICK_S)
    try:
        theatre.start_market()
        theatre.start_daemon()
        environment = os.environ | theatre.daemon_environment()
        path = root / "many.toml"
        path.write_text(JOB)
        accepted_s = _took_s(["submit", str(path)], environment)
        _until(theatre, lambda job: job["tasks"]["unbegun"] < MOST_TASKS)
        ps_s = commands.wall_s(["ps"], environment)
        ps_processor_s = commands.processor_s(["ps"], environment)
        listed_s = commands.wall_s(["ps", "many"], environment)
        cancelled_s = _took_s(["cancel", "many", "--yes"], environment)
        began = time.perf_counter()
        _until(theatre, lambda job: job["status"] == "cancelled")
        return [
            Figure(f"an array of {MOST_TASKS:,} tasks: `submit`, wall", [accepted_s], "s"),
            Figure("… `ps` meanwhile, wall", ps_s, "s", target=0.5),
            Figure("… of it: processor time", ps_processor_s, "s"),
            Figure("… `ps JOB`, its tasks that have begun, wall", listed_s, "s", target=0.5),
            Figure("… `cancel`, wall", [cancelled_s], "s"),
            Figure("… and until all of it is over", [time.perf_counter() - began], "s"),
        ]
    finally:
        theatre.stop()


def _took_s(arguments: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([commands.PROGRAM, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _until(theatre: Theatre, holds: Callable[[Json], bool]) -> None:
    give_up = time.monotonic() + TIMEOUT_S
    while not holds(theatre.client.get("/v1/jobs/many")["job"]):
        if time.monotonic() > give_up:
            raise TimeoutError("the array does not come to it")
        time.sleep(0.2)
