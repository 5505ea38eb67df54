"""A large sandbox market as a process of its own: ``python benchmarks/fleet.py DIRECTORY KINDS``.

500 machines of each of the first so many kinds, with one GPU each, on a scaled clock. Instances run nothing, so that
only the daemon's work counts. The port and the clock's origin are written to ``DIRECTORY/market.json`` once it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

from autopilot.clock import ScaledClock
from autopilot_lab.sandbox.catalogue import default_catalogue
from autopilot_lab.sandbox.market.machines import MachineSpec
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox

MACHINES = 500
"""Of each kind: as many as a search for one answers with at the most."""
GPUS = (
    "RTX 4090",
    "RTX 3090",
    "RTX 4080",
    "RTX 3080",
    "RTX 5090",
    "RTX A6000",
    "L40S",
    "A100 SXM4",
    "A100 PCIE",
    "H100 SXM",
)
SPEED = 30.0
"""Market seconds per real second: the market's request limits shrink with it, what is measured does not."""
START_TIMEOUT_S = 30.0


def machines(kinds: int, start: datetime) -> tuple[MachineSpec, ...]:
    """All alike but for their prices; bids have a long way to go up."""
    pattern = next(spec for spec in default_catalogue(1, start) if spec.gpu_name == "RTX 4090" and spec.gpu_count == 1)
    random = Random(1)  # noqa: S311 - prices, no secret
    return tuple(
        replace(
            pattern,
            gpu_name=GPUS[number // MACHINES],
            machine_id=50_000 + number,
            host_id=90_000 + number,
            floor=Decimal(f"{random.uniform(0.20, 0.22):.4f}"),
            on_demand=Decimal(f"{random.uniform(0.40, 0.44):.4f}"),
        )
        for number in range(kinds * MACHINES)
    )


@contextlib.contextmanager
def running(root: Path, kinds: int) -> Iterator[tuple[str, ScaledClock]]:
    """The market's address and its clock."""
    process = subprocess.Popen([sys.executable, __file__, root, str(kinds)], stdout=subprocess.DEVNULL)
    address = root / "market.json"
    try:
        give_up = time.monotonic() + START_TIMEOUT_S
        while not address.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError("the market did not start")
            time.sleep(0.05)
        told = json.loads(address.read_text())
        yield told["url"], ScaledClock(datetime.fromisoformat(told["origin"]), SPEED)
    finally:
        process.terminate()
        process.wait()


async def serve(root: Path, kinds: int) -> None:
    origin = datetime.now(UTC)
    config = SandboxConfig(
        state_dir=root / "market",
        credit=Decimal(10_000),
        machines=machines(kinds, origin),
        real_processes=False,
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with running_sandbox(config, ScaledClock(origin, SPEED)) as sandbox:
        unfinished = root / "market.new"
        unfinished.write_text(json.dumps({"url": sandbox.url, "origin": origin.isoformat()}))
        unfinished.replace(root / "market.json")
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
