"""A month's report over a million entries, and how fast entries are posted, on SQLite and on PostgreSQL.

The month is one of heavy use: 1,000 machines that lived 40 hours each, across a midnight or two, and were paused once.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from figures import Figure

from autopilot.books.spend import spend
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.job import GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.lease import Billing, Ending, Lease, LeaseState, Slot
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.outstanding import read_moment
from autopilot.ports.store import Store
from autopilot.store.database import open_store
from tests.pg import PostgresServer

ENTRIES = 1_000_000
LEASES = 1_000
JOBS = 200
LIFE_H = 40
AT_ONCE = 5_000
"""Entries posted in one transaction while the ledger is filled."""
TICK_ENTRIES = 50
REPEATS = 20
MONTH = "2026-10"
BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 2, tzinfo=UTC)
DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}
GPUS = ("RTX 4090", "RTX 3090", "A100 SXM4", "H100 SXM", "L40S")


async def measure(root: Path) -> list[Figure]:
    figures = await _measure("SQLite", str(root / "ledger.db"))
    server = PostgresServer(**DURABLE)
    try:
        return figures + await _measure("PostgreSQL", server.url(server.new_database()))
    finally:
        server.remove()


async def _measure(name: str, url: str) -> list[Figure]:
    async with _filled(url) as (store, filling_s):
        bulk = Figure(f"posting on {name}, {AT_ONCE:,} entries in a transaction", [ENTRIES / filling_s], "entries/s")
        small = [await _post_as_a_tick(store, number) for number in range(REPEATS)]
        figures = [bulk, Figure(f"posting on {name}, {TICK_ENTRIES} entries in a transaction", small, "entries/s")]
        for by in ("month", "job", "gpu", "day"):
            samples = []
            for _ in range(REPEATS + 1):
                began = time.perf_counter()
                async with store.snapshot() as uow:
                    body = await spend(uow, await read_moment(uow, NOW, Params()), {"by": by, "month": MONTH})
                samples.append((time.perf_counter() - began) * 1000)
            assert body.rows
            what = f"a month's spend by {by} over {ENTRIES:,} entries on {name}, savings included"
            figures.append(Figure(what, samples[1:], "ms", target=100))
        return figures


@asynccontextmanager
async def _filled(url: str) -> AsyncIterator[tuple[Store, float]]:
    """An open store, and the seconds that it took to post a million entries."""
    store = await open_store(url)
    try:
        leases = list(_leases())
        async with store.transaction() as work:
            for number in range(JOBS):
                await work.jobs.save(_job(number))
            for lease in leases:
                await work.leases.save(lease)
        entries, began = _entries(leases), time.perf_counter()
        for _ in range(ENTRIES // AT_ONCE):
            async with store.transaction() as work:
                assert await work.ledger.post(next(entries) for _ in range(AT_ONCE)) == AT_ONCE
        yield store, time.perf_counter() - began
    finally:
        await store.close()


async def _post_as_a_tick(store: object, number: int) -> float:
    """Entries a second, the commit to disk included."""
    lease = next(_leases())
    day = date(2026, 9, 1)  # outside the month that is reported
    entries = [_entry(f"tick-{number}-{n}", lease, CostKind.COMPUTE, day) for n in range(TICK_ENTRIES)]
    began = time.perf_counter()
    async with store.transaction() as work:  # type: ignore[attr-defined]
        await work.ledger.post(entries)
    return TICK_ENTRIES / (time.perf_counter() - began)


def _leases() -> Iterator[Lease]:
    rng = random.Random(1)  # noqa: S311
    for number in range(LEASES):
        start = BEGIN + timedelta(minutes=rng.randrange(28 * 24 * 60))
        rate, storage = Decimal(rng.randrange(200, 900)) / 1000, Decimal("0.003")
        lease = Lease(
            id=f"lease-{number:05}",
            job_id=f"job-{number % JOBS:05}",
            slot=Slot.MAIN,
            state=LeaseState.GONE,
            provider=rng.choice(("vastai", "runpod")),
            label=f"ap1.bench.{number}",
            capacity_type=CapacityType.SPOT,
            offer_id="o",
            machine_id=f"m{number % 300}",
            host_id="h",
            gpu=rng.choice(GPUS),
            num_gpus=1,
            disk_gb=Decimal(40),
            bid=rate,
            storage_rate=storage,
            on_demand_price=rate * 2,
            intended_at=start,
            not_after=start + timedelta(days=2),
            reason=Reason.CHEAPEST,
            instance_id=str(number),
            billing=Billing(Decimal(1), settled_at=start + timedelta(hours=LIFE_H + 1)),
            ending=Ending(gone_at=start + timedelta(hours=LIFE_H)),
        )
        for status, at_h in (
            (InstanceStatus.PROVISIONING, 0.0),
            (InstanceStatus.RUNNING, 0.1),
            (InstanceStatus.STOPPED, 18.0),
            (InstanceStatus.RUNNING, 20.0),
        ):
            lease = lease.bill_as(status, rate, storage, start + timedelta(hours=at_h))
        yield lease.stop_billing(start + timedelta(hours=LIFE_H))


def _entries(leases: list[Lease]) -> Iterator[LedgerEntry]:
    """One after the other for ever, spread over the machines, each within its own life and the month."""
    kinds = (CostKind.COMPUTE, CostKind.COMPUTE, CostKind.COMPUTE, CostKind.STORAGE_RUNNING, CostKind.BANDWIDTH)
    number = 0
    while True:
        for lease in leases:
            at = lease.intended_at + timedelta(hours=LIFE_H * (number % 97) / 97)
            yield _entry(f"{lease.id}:{number}", lease, kinds[number % len(kinds)], at.date())
        number += 1


def _entry(id: str, lease: Lease, kind: CostKind, day: date) -> LedgerEntry:
    amount = Decimal("0.010000123")
    return LedgerEntry(id, EntryType.ACCRUE, kind, lease.id, lease.job_id, lease.provider, day, amount, NOW)


def _job(number: int) -> Job:
    spec = JobSpec(name=f"bench-{number}", image="i", run="r", gpus=(GpuChoice("RTX 4090"),))
    return Job(f"job-{number:05}", spec, JobStatus.SUCCEEDED, Reason.COMPLETED, BEGIN, finished_at=NOW)
