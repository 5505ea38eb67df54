"""One tick with many jobs and offers, and where its time goes."""

from __future__ import annotations

import time
from pathlib import Path

import fleet
from bench import Size, bench, milliseconds
from figures import Figure

REPEATS = 30
TICK_S = 15.0
"""Market seconds from the beginning of one tick to that of the next, as in the daemon."""

FEW = Size()
MANY = Size(running=50, queued=950, kinds=10)
TASKS = Size(running=50, kinds=10, tasks=1_000)
"""Ten arrays, one for each kind."""


async def measure(root: Path, size: Size) -> list[Figure]:
    async with bench(root, size) as under_test:
        await under_test.settle_down()
        whole, processor, observing, committing = [], [], [], []
        ticked_at = under_test.clock.monotonic()
        for _ in range(REPEATS):
            await under_test.report_as_agents()
            # On this clock a tick of 0.4 s takes 12 s: the pause is shorter by so much, as between the daemon's ticks.
            await under_test.clock.sleep(max(0.0, ticked_at + TICK_S - under_test.clock.monotonic()))
            ticked_at = under_test.clock.monotonic()
            under_test.store.writes.clear()
            began, worked_s = time.perf_counter(), time.process_time()
            whole.append(await under_test.tick())
            processor.append(time.process_time() - worked_s)
            commit_began, commit_s = under_test.store.writes[0]
            observing.append(commit_began - began)
            committing.append(commit_s)
    waiting = f", and {size.queued} that wait" if size.queued else ""
    running = f"{size.running} running jobs{waiting}"
    if size.tasks:
        running = f"{size.kinds} arrays of {size.tasks:,} tasks in all, {size.running} of them running"
    return [
        milliseconds(f"one tick, {size.kinds * fleet.MACHINES} offers × {running}", whole),
        milliseconds("… processor time of it, all threads", processor),
        milliseconds("… of it: reading market, mailboxes and offers", observing),
        milliseconds("… of it: the transaction (evolve, accrue, decide, guard, commit)", committing),
    ]
