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
gpu = "RTX 4090:1"

[work]
estimate = "30m"

[budget]
total = "$25.00"

[checkpoint]
path = "ckpt"
"""
LIMITS = Limits(
    day=Decimal(10_000),
    month=Decimal(10_000),
    max_hourly=Decimal(1_000),
    max_instances=2 * JOBS,
    launches_per_job_10min=3,
    launches_per_hour=10 * JOBS,
)


@dataclass
class TimedStore:
    """A store that keeps the seconds of its last write transactions, each with its beginning."""

    store: Store
    writes: list[tuple[float, float]] = field(default_factory=list)

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
        for number in range(JOBS):
            await self._submit(ids.new(), number)
            await self.tick()
            await self.report_as_agents()
            await self.clock.sleep(15)
        for _ in range(SETTLING_TICKS):
            await self.tick()
            await self.report_as_agents()
            if all(job.status is JobStatus.RUNNING for job in await self.open_jobs()):
                return
            await self.clock.sleep(15)
        by_status = Counter(f"{job.status}: {job.reason}" for job in await self.open_jobs())
        raise RuntimeError(f"the jobs do not come to run: {by_status}")

    async def _submit(self, job_id: str, number: int) -> None:
        now = self.clock.now()
        spec = parse_job(JOB.format(number=number), source="benchmark", now=now)
        async with self.store.transaction() as work:
            await work.jobs.save(Job(job_id, spec, JobStatus.PENDING, Reason.SUBMITTED, now))


@asynccontextmanager
async def bench(root: Path) -> AsyncIterator[Bench]:
    """An empty ledger, and a market of ``fleet.MACHINES`` machines."""
    with fleet.running(root) as (url, clock):
        async with contextlib.AsyncExitStack() as stack:
            store = TimedStore(await open_store(str(root / "ledger.db")))
            stack.push_async_callback(store.close)
            options = {"base_url": url, "api_key": "sandbox-key", "search_limit": 500, "offers_max_age_s": OFFERS_AGE_S}
            provider = registry.connect("vastai", options, clock)
            stack.push_async_callback(provider.close)
            blobs = LocalBlobStore(root / "blobs", b"k" * 32, "http://127.0.0.1:1")
            engine = Engine(
                EngineConfig("bench234", LIMITS, Params()),
                {"vastai": provider},
                store,
                blobs,
                await AgentBootstrap.prepare(blobs),
                AgentUnpacker(),
                clock,
                UlidIds(clock),
            )
            yield Bench(engine, store, blobs, provider, clock, url)


def milliseconds(what: str, seconds: list[float]) -> Figure:
    return Figure(what, [value * 1000 for value in seconds], "ms")
