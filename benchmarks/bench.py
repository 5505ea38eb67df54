"""An engine in this process, all around it real (SDK, HTTP, SQLite, mailbox), and stopwatches at its ports."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import fleet
from figures import Figure

from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.config.job_file import parse_job
from autopilot.domain.agent_state import AgentState
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.ids import UlidIds
from autopilot.mailbox.keys import heartbeat_key
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.policy.guard import Limits
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.ports.store import Store, UnitOfWork
from autopilot.providers import registry
from autopilot.service.wiring import AgentBootstrap
from autopilot.store.database import open_store

JOBS = 50
SETTLING_TICKS = 40
OFFERS_AGE_S = 86_400
"""One search serves the whole run: so many rows at once would soon use up the market's daily allowance."""
JOB = """
name = "bench-{number}"
image = "pytorch/pytorch:latest"
run = "python train.py"

[resources]
gpu = "{gpu}:1"

[work]
estimate = "30m"

[budget]
total = "${total}.00"

[checkpoint]
path = "ckpt"
"""
ARRAY = """
[deadline]
within = "{within}h"

[array]
count = {tasks}
parallel = {running}
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a bench: so many jobs get a machine, so many more wait for one, on a market of so many kinds of machines."""

    running: int = JOBS
    queued: int = 0
    kinds: int = 1
    tasks: int = 0
    """Of as many arrays as there are kinds, ``running`` of them at once; 0: jobs without tasks."""

    @property
    def limits(self) -> Limits:
        return Limits(
            day=Decimal(10_000),
            month=Decimal(10_000),
            max_hourly=Decimal(1_000),
            max_instances=self.running if self.queued else 2 * self.running,
            launches_per_job_10min=3,
            launches_per_hour=20 * self.running,
        )


@dataclass
class TimedStore:
    """A store that keeps the seconds of its last write transactions, each with its beginning."""

    store: Store
    writes: list[tuple[float, float]] = field(default_factory=list)

    @property
    def revision(self) -> int:
        return self.store.revision

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        began = time.perf_counter()
        async with self.store.transaction() as work:
            yield work
        self.writes.append((began, time.perf_counter() - began))

    def snapshot(self) -> AbstractAsyncContextManager[UnitOfWork]:
        return self.store.snapshot()

    async def close(self) -> None:
        await self.store.close()


@dataclass
class Bench:
    engine: Engine
    store: TimedStore
    blobs: LocalBlobStore
    provider: Provider
    clock: Clock
    market_url: str
    size: Size
    beats: int = 0

    async def open_jobs(self) -> tuple[Job, ...]:
        async with self.store.snapshot() as work:
            return await work.jobs.list_open()

    async def tick(self) -> float:
        """Seconds."""
        began = time.perf_counter()
        await self.engine.tick()
        return time.perf_counter() - began

    async def report_as_agents(self) -> None:
        """The instances run nothing, so their heartbeats are written here."""
        self.beats += 1
        for job in await self.open_jobs():
            for lease in job.leases:
                beat = Heartbeat(
                    boot=1,
                    seq=self.beats,
                    run_epoch=lease.orders.run_epoch,
                    orders_seq_seen=1,
                    state=AgentState.RUNNING,
                    step=self.beats,
                )
                await self.blobs.put(heartbeat_key(job.id, lease.id), beat.to_json())

    async def settle_down(self) -> None:
        """Submit the jobs one by one, then tick until all run; raises ``RuntimeError`` when that takes too long."""
        ids = UlidIds(self.clock)
        for number in range(self.size.kinds if self.size.tasks else self.size.running):
            await self._submit(ids.new(), number)
            await self.tick()
            await self.report_as_agents()
            await self.clock.sleep(15)
        for number in range(self.size.queued):
            await self._submit(ids.new(), self.size.running + number)
        for _ in range(SETTLING_TICKS):
            await self.tick()
            await self.report_as_agents()
            by_status = Counter(job.status for job in await self.open_jobs() if not job.is_array)
            if by_status[JobStatus.RUNNING] == self.size.running:
                return
            await self.clock.sleep(15)
        reasons = Counter(f"{job.status}: {job.reason}" for job in await self.open_jobs())
        raise RuntimeError(f"the jobs do not come to run: {reasons}")

    async def _submit(self, job_id: str, number: int) -> None:
        now = self.clock.now()
        size = self.size
        text = JOB.format(number=number, gpu=fleet.GPUS[number % size.kinds], total=25 * max(1, size.tasks))
        if size.tasks:
            within = 6 * size.tasks // size.running  # tenths of an hour, of which five are work: each place is needed
            one = {"tasks": size.tasks // size.kinds, "running": size.running // size.kinds}
            text += ARRAY.format(**one, within=within / 10)
        spec = parse_job(text, source="benchmark", now=now)
        async with self.store.transaction() as work:
            await work.jobs.save(Job(job_id, spec, JobStatus.PENDING, Reason.SUBMITTED, now))


@asynccontextmanager
async def bench(root: Path, size: Size = Size()) -> AsyncIterator[Bench]:
    """An empty ledger and a market."""
    with fleet.running(root, size.kinds) as (url, clock):
        async with contextlib.AsyncExitStack() as stack:
            store = TimedStore(await open_store(str(root / "ledger.db")))
            stack.push_async_callback(store.close)
            options = {"base_url": url, "api_key": "sandbox-key", "offers_max_age_s": OFFERS_AGE_S}
            options |= {"search_limit": fleet.MACHINES}
            provider = registry.connect("vastai", options, clock)
            stack.push_async_callback(provider.close)
            blobs = LocalBlobStore(root / "blobs", b"k" * 32, "http://127.0.0.1:1")
            engine = Engine(
                EngineConfig("bench234", size.limits, Params()),
                {"vastai": provider},
                store,
                blobs,
                await AgentBootstrap.prepare(blobs),
                AgentUnpacker(),
                clock,
                UlidIds(clock),
            )
            yield Bench(engine, store, blobs, provider, clock, url, size)


def milliseconds(what: str, seconds: list[float]) -> Figure:
    return Figure(what, [value * 1000 for value in seconds], "ms")
