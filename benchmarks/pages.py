"""Each page of a daemon with 1,000 jobs and 90 days of prices: how long it takes, how much it sends; and 50 readers.

The daemon is this process, its listener another, the market the sandbox. A page is timed from the request to its last
byte, so the daemon's answers count.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from figures import Figure

from autopilot.clock import SystemClock
from autopilot.config.settings import Settings
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.job import GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.lease import Billing, Ending, Lease, LeaseState, Slot
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.offer import CapacityType
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.ports.store import DecisionRecord, EventRecord
from autopilot.service.wiring import Daemon, daemon
from autopilot.store.database import open_store
from autopilot.web.session_path import make_path
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox

JOBS, OPEN = 1_000, 200
DAYS = 90
MACHINES = 20
REPEATS = 20
READERS = 50
READERS_OF_A_SESSION = 16
WATCHED_S = 60.0
TICK_S = 15.0
GPU = "RTX 4090"
MOST_MS, MOST_KB, MOST_PERCENT = 200, 150, 5


async def measure(root: Path) -> list[Figure]:
    now = datetime.now(UTC)
    await asyncio.to_thread((root / "state").mkdir, mode=0o700)
    await _fill(root / "state", now)
    figures = []
    async with _served(root) as (served, base, http):
        pages = {
            "Now": "/",
            "Job": f"/jobs/{_id(1)}",
            "Money": "/money",
            "Decisions": "/decisions",
            "Market, 7 days": f"/market?gpu={GPU.replace(' ', '+')}&period=7d",
            "Market, 90 days": f"/market?gpu={GPU.replace(' ', '+')}&period=90d",
        }
        for name, path in pages.items():
            took, size, used = [], 0, 0.0
            for number in range(REPEATS + 1):
                used = _cpu_s(served) if number == 1 else used
                began = time.perf_counter()
                async with http.get(base + path) as answer:
                    body = await answer.read()
                    assert answer.status == 200, body
                took.append((time.perf_counter() - began) * 1000)
                size = len(zlib.compress(body, 6))
            figures.append(Figure(f"{name}, {JOBS:,} jobs", took[1:], "ms", target=MOST_MS))
            cpu_ms = 1000 * (_cpu_s(served) - used) / REPEATS
            figures.append(Figure(f"{name}, processor time of daemon and listener", [cpu_ms], "ms"))
            figures.append(Figure(f"{name}, compressed", [size / 1000], "kB", target=MOST_KB))
        figures += await _measure_readers(served)
    return figures


async def _measure_readers(served: Daemon) -> list[Figure]:
    """Per cent of a core, of daemon and listener, that readers of Now cost beyond the ticks themselves; and how long
    ticks take beside them: one that takes longer than the time between two makes the next one late."""
    alone, usual_ms = await _watch(served)
    sessions = [await _enter(served) for _ in range(1 + READERS // READERS_OF_A_SESSION)]
    reading = [asyncio.create_task(_read(*sessions[number // READERS_OF_A_SESSION])) for number in range(READERS)]
    await asyncio.sleep(5)
    with_readers, beside_ms = await _watch(served)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    share = 100 * (with_readers - alone) / WATCHED_S
    return [
        Figure(f"{READERS} readers of Now", [max(share, 0.0)], "% of a core", target=MOST_PERCENT),
        Figure("A tick without readers", usual_ms, "ms"),
        Figure(f"A tick beside {READERS} readers", beside_ms, "ms", target=1000 * TICK_S),
    ]


async def _watch(served: Daemon) -> tuple[float, list[float]]:
    """Seconds of processor time of listener and daemon while it ticks, and how long each tick took, ms."""
    used, began = _cpu_s(served), time.monotonic()
    took = []
    for number in range(round(WATCHED_S / TICK_S)):
        await asyncio.sleep(max(began + number * TICK_S - time.monotonic(), 0))
        ticked = time.monotonic()
        await served.engine.tick()
        took.append((time.monotonic() - ticked) * 1000)
    await asyncio.sleep(max(began + WATCHED_S - time.monotonic(), 0))
    return _cpu_s(served) - used, took


def _cpu_s(served: Daemon) -> float:
    """Of the children of this process alone, and of the daemon in it; the readers here cost a little too."""
    own = time.process_time()
    children = Path("/proc/self/task").glob("*/children")
    pids = {pid for path in children for pid in path.read_text().split()}
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return own + ticks / 100


async def _read(base: str, cookie: str) -> None:
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
        http.get(f"{base}/stream/now", headers={"Cookie": cookie}, timeout=aiohttp.ClientTimeout()) as answer,
    ):
        assert answer.status == 200
        async for _ in answer.content.iter_any():
            pass


async def _enter(served: Daemon) -> tuple[str, str]:
    connector = aiohttp.UnixConnector(str(served.settings.socket_path))
    async with aiohttp.ClientSession(connector=connector) as here, here.post("http://localhost/v1/page/link") as answer:
        link = str((await answer.json())["url"])
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
        http.get(link, allow_redirects=False) as answer,
    ):
        cookie = answer.headers["Set-Cookie"].split(";")[0]
    origin, secret = link.partition("/enter/")[0], cookie.partition("=")[2]
    return origin + make_path(secret).removesuffix("/"), cookie


@asynccontextmanager
async def _served(root: Path) -> AsyncIterator[tuple[Daemon, str, aiohttp.ClientSession]]:
    """A daemon that has ticked, where its page is, and a browser that was let in."""
    key = root / "key"
    key.touch(mode=0o600)
    key.write_text("sandbox-key")
    config = SandboxConfig(state_dir=root / "market", real_processes=False)
    async with running_sandbox(config, SystemClock()) as sandbox:
        given: dict[str, Any] = {
            "state_dir": root / "state",
            "api": {"socket": root / "s"},
            "limits": {"day": "100", "month": "1000"},
            "providers": {"vastai": {"base_url": sandbox.url, "api_key_file": key}},
        }
        settings = Settings(**given)
        async with daemon(settings) as served:
            await served.engine.tick()
            base, cookie = await _enter(served)
            headers = {"Cookie": cookie}
            async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as http:
                yield served, base, http


async def _fill(state: Path, now: datetime) -> None:
    store = await open_store(str(state / "ledger.db"))
    rng = random.Random(1)  # noqa: S311
    leases = list(_leases(now, rng))
    async with store.transaction() as work:
        for number in range(JOBS):
            await work.jobs.save(_job(number, now))
        for lease in leases:
            await work.leases.save(lease)
        await work.ledger.post(entry for lease in leases for entry in _entries(lease))
        for lease in leases:
            assert lease.job_id is not None
            await work.events.add(_events(lease))
            decision = f"d-{lease.id}"
            await work.decisions.add(DecisionRecord(decision, lease.job_id, lease.intended_at, (), (), ()))
        await work.prices.add(_prices(now, rng))
    await store.close()


def _id(number: int) -> str:
    return f"job-{number:06}"


def _job(number: int, now: datetime) -> Job:
    spec = JobSpec(name=f"sweep-{number}", image="i", run="python train.py", gpus=(GpuChoice(GPU, 1),))
    spec = replace(spec, budget=Decimal(25), work_estimate=timedelta(hours=30))
    begun = now - timedelta(hours=12) if number < OPEN else now - timedelta(days=1 + number % 28)
    job = Job(_id(number), spec, JobStatus.PARKED, Reason.USER_STOPPED, begun, spent=Decimal("7.5"))
    if number < OPEN:
        return job
    return replace(job, status=JobStatus.SUCCEEDED, reason=Reason.COMPLETED, finished_at=begun + timedelta(hours=20))


def _leases(now: datetime, rng: random.Random) -> Iterator[Lease]:
    for number in range(JOBS):
        start = now - timedelta(hours=11) if number < OPEN else now - timedelta(days=1 + number % 28)
        rate, storage = Decimal(rng.randrange(200, 900)) / 1000, Decimal("0.003")
        lease = Lease(
            id=f"lease-{number:05}",
            job_id=_id(number),
            slot=Slot.MAIN,
            state=LeaseState.GONE,
            provider=rng.choice(("vastai", "runpod")),
            label=f"ap1.bench.{number}",
            capacity_type=CapacityType.SPOT,
            offer_id="o",
            machine_id=f"m{number % 300}",
            host_id="h",
            gpu=GPU,
            num_gpus=1,
            disk_gb=Decimal(40),
            bid=rate,
            storage_rate=storage,
            on_demand_price=rate * 2,
            intended_at=start,
            not_after=start + timedelta(days=2),
            reason=Reason.OUTBID,
            instance_id=str(number),
            billing=Billing(Decimal(1), settled_at=start + timedelta(hours=11)),
            ending=Ending(gone_at=start + timedelta(hours=10)),
        )
        hours = (
            (InstanceStatus.PROVISIONING, 0.0),
            (InstanceStatus.RUNNING, 0.1),
            (InstanceStatus.STOPPED, 4.0),
            (InstanceStatus.RUNNING, 5.0),
        )
        for status, at_h in hours:
            lease = lease.bill_as(status, rate, storage, start + timedelta(hours=at_h))
        yield lease.stop_billing(start + timedelta(hours=10))


def _entries(lease: Lease) -> Iterator[LedgerEntry]:
    for number in range(20):
        at = lease.intended_at + timedelta(minutes=30 * number)
        yield LedgerEntry(
            id=f"{lease.id}-{number}",
            lease_id=lease.id,
            job_id=lease.job_id,
            provider=lease.provider,
            type=EntryType.ACCRUE,
            kind=CostKind.COMPUTE,
            amount=Decimal("0.15"),
            day=at.date(),
            posted_at=at,
        )


def _events(lease: Lease) -> Iterator[EventRecord]:
    for number in range(20):
        fields = (("step", 100 * number), ("number", number))
        at = lease.intended_at + timedelta(minutes=30 * number)
        yield EventRecord(at, "checkpoint.verified", lease.job_id, lease.id, fields)
    yield EventRecord(lease.intended_at, "agent.reported", lease.job_id, lease.id, (("state", "running"), ("boot", 1)))


def _prices(now: datetime, rng: random.Random) -> Iterator[PriceObservation]:
    """Of each hour of all days, each machine's floor."""
    for hour in range(DAYS * 24):
        at = now - timedelta(hours=hour)
        for machine in range(MACHINES):
            floor = Decimal(rng.randrange(200, 320)) / 1000
            market = ("vastai", "runpod")[machine % 2]
            yield PriceObservation(market, f"m{machine}", GPU, 1, floor, Decimal("0.60"), at)
