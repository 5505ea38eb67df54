"""One tick with 50 running jobs on a market of 500 offers, and where its time goes."""

from __future__ import annotations

import time
from pathlib import Path

import fleet
from bench import JOBS, bench, milliseconds
from figures import Figure

REPEATS = 30
TICK_S = 15.0
"""Market seconds from one tick to the next, as in the daemon."""


async def measure(root: Path) -> list[Figure]:
    async with bench(root) as under_test:
        await under_test.settle_down()
        whole, observing, committing = [], [], []
        for _ in range(REPEATS):
            await under_test.report_as_agents()
            await under_test.clock.sleep(TICK_S)
            under_test.store.writes.clear()
            began = time.perf_counter()
            whole.append(await under_test.tick())
            commit_began, commit_s = under_test.store.writes[0]
            observing.append(commit_began - began)
            committing.append(commit_s)
    size = f"{fleet.MACHINES} offers × {JOBS} running jobs"
    return [
        milliseconds(f"one tick, {size}", whole),
        milliseconds("… of it: reading market, mailboxes and offers", observing),
        milliseconds("… of it: the transaction (evolve, accrue, decide, guard, commit)", committing),
    ]
