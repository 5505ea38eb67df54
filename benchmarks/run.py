"""Measure what docs/explanation/performance.md states: ``make bench``, or ``python benchmarks/run.py NAME …``.

Every figure is the median over its repeats, on the wall clock unless it says otherwise. Nothing leaves the machine:
the market is the sandbox, as a process of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import agent
import arrays
import commands
import deciding
import home_line
import ledger
import packing
import pages
import rebid
import remote
import structlog
import ticks
import tunnels
from figures import Figure, table

BENCHMARKS: dict[str, Callable[[Path], list[Figure]]] = {
    "commands": commands.measure,
    "decide": lambda root: deciding.measure(),
    "tick": lambda root: asyncio.run(ticks.measure(root, ticks.FEW)),
    "tick-many": lambda root: asyncio.run(ticks.measure(root, ticks.MANY)),
    "tick-arrays": lambda root: asyncio.run(ticks.measure(root, ticks.TASKS)),
    "ledger": lambda root: asyncio.run(ledger.measure(root)),
    "rebid": lambda root: asyncio.run(rebid.measure(root)),
    "pack": packing.measure,
    "remote": remote.measure,
    "arrays": arrays.measure,
    "pages": lambda root: asyncio.run(pages.measure(root)),
    "agent": lambda root: asyncio.run(agent.measure(root)),
    "tunnels": tunnels.measure,
    "home-line": home_line.measure,
    "tunnels-5gb": lambda root: tunnels.measure(root, gigabytes=5, repeats=1),
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)  # noqa: T201
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    figures: list[Figure] = []
    for name in names or list(BENCHMARKS):
        print(f"{name} …", file=sys.stderr, flush=True)  # noqa: T201
        with tempfile.TemporaryDirectory(prefix="autopilot-bench-") as root:
            figures += BENCHMARKS[name](Path(root))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")  # noqa: T201
    print(table(figures))  # noqa: T201
    return 1 if any(figure.misses for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
