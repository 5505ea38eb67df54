"""What a user waits for, and what an idle daemon keeps in memory: real processes, as installed."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure

from autopilot_lab.demo.theatre import Theatre

REPEATS = 15
TICK_S = 2.0
IDLE_TICKS = 10
TIMEOUT_S = 120.0
PROGRAM = Path(sys.executable).with_name("autopilot")


def measure(root: Path) -> list[Figure]:
    theatre = Theatre(root, seed=1, speed=1.0, tick_s=TICK_S)
    try:
        theatre.start_market()
        theatre.start_daemon()
        environment = os.environ | theatre.daemon_environment()
        help_s = wall_s(["--help"], environment)
        ps_s = wall_s(["ps"], environment)
        return [
            Figure("`autopilot --help`, wall", help_s, "s", target=0.3),
            Figure("`autopilot ps` with a running daemon, wall", ps_s, "s", target=0.5),
            Figure(f"memory of an idle daemon after {IDLE_TICKS} ticks, SDK loaded", [_idle_mb(theatre)], "MB"),
        ]
    finally:
        theatre.stop()


def wall_s(arguments: list[str], environment: dict[str, str]) -> list[float]:
    samples = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        subprocess.run([PROGRAM, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
        samples.append(time.perf_counter() - began)
    return samples[1:]  # the first one fills the page cache


def processor_s(arguments: list[str], environment: dict[str, str]) -> list[float]:
    """Of the command itself, whatever else the machine does."""
    samples = []
    for _ in range(REPEATS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([PROGRAM, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        samples.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return samples[1:]


def _idle_mb(theatre: Theatre) -> float:
    """Resident memory (VmRSS) in millions of bytes."""
    seen: set[str] = set()
    give_up = time.monotonic() + TIMEOUT_S
    while len(seen) < IDLE_TICKS:
        status = theatre.client.get("/v1/status")
        seen.add(status["last_tick_at"])
        if time.monotonic() > give_up:
            raise TimeoutError("the daemon does not tick")
        time.sleep(TICK_S / 4)
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{status['pid']}/status").read_text(), re.MULTILINE)
    assert found is not None, "Linux states VmRSS"
    return int(found[1]) * 1024 / 1e6
