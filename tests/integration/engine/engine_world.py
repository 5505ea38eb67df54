"""The engine on a market of the sandbox, with the product's adapter and blobs on disk, and a clock that tests move.

The market of vast.ai is asked inside this process, unless a test is about HTTP. The ledger is in memory unless a test
names a database: the store contract holds that it answers as SQL does.
``engine_agents`` plays the agents; a sleep advances the clock, so pacing costs market time and no real time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from autopilot.agent.unpack import AgentUnpacker
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService
from autopilot.api.submissions import Sent
from autopilot.clock import ManualClock
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.domain.job import GpuChoice, Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.params import Params
from autopilot.domain.spend import report
from autopilot.engine.certification import CertifyRules
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.ids import UlidIds
from autopilot.policy.guard import Limits
from autopilot.ports.images import ImageReader
from autopilot.ports.provider import CreateRequest, Done, Provider
from autopilot.ports.recording import Recorder
from autopilot.ports.store import Store
from autopilot.ports.tunnels import Tunnels
from autopilot.providers.vastai import plugin
from autopilot.service.wiring import AgentBootstrap
from autopilot.store.database import open_store
from autopilot_lab.memory_store.store import MemoryStore
from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.integration.engine.engine_agents import Agents
from tests.integration.engine.in_process import connect_in_process
from tests.memory_blobs import MemoryBlobs
from tests.patience import PATIENCE_S

D = Decimal
INSTALL_ID = "install2"
OURS = f"ap1.{INSTALL_ID}."
TICK_S = 15.0
JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "10m"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "1m"
"""
LIMITS = Limits(
    day=D(50),
    month=D(500),
    max_hourly=D(10),
    max_instances=10,
    launches_per_job_10min=3,
    launches_per_hour=20,
)

WrapStore = Callable[[Store], Store]


class QuickClock(ManualClock):
    async def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, 0))
        await asyncio.sleep(0)


class World:
    """``sandbox`` is the truth, ``engine`` what is tested. ``wrap`` may put something between it and its store."""

    limits = LIMITS
    over_http = False
    """With the vendor's SDK, over a socket."""

    def __init__(self, root: Path, clock: QuickClock, sandbox: Sandbox, http: ClientSession, wrap: WrapStore) -> None:
        self.root = root
        self.clock = clock
        self.sandbox = sandbox
        self.http = http
        self.market = sandbox.market
        self.blobs = MemoryBlobs()
        self.agents = Agents(self.blobs, self.market)
        self.wrap = wrap
        self.limits = LIMITS
        """Of the next daemon."""
        self.certify_rules = CertifyRules()
        self.watched: tuple[GpuChoice, ...] = ()
        self.timeout_s = PATIENCE_S
        self.ledger_url = ""
        """Empty: in memory."""
        self._in_memory = MemoryStore()
        self.api_key = "sandbox-key"
        self.recorder: Recorder | None = None
        self.tunnels: Tunnels | None = None
        self.images: ImageReader | None = None
        self._ids = UlidIds(clock)
        self._made_by_hand: list[str] = []

    async def start(self) -> None:
        """Starts a new daemon on what the last one left in store, blobs and market."""
        self.store = await self._open_store()
        self.provider = self.connect()
        self.others = self.connect_others()
        config = EngineConfig(
            INSTALL_ID,
            self.limits,
            Params(),
            settle_delay=timedelta(seconds=30),
            certify=self.certify_rules,
            watched=self.watched,
        )
        bootstrap = await AgentBootstrap.prepare(self.blobs)
        store = self.wrap(self.store)
        self.engine = Engine(
            config,
            {each.name: each for each in (self.provider, *self.others)},
            store,
            self.blobs,
            bootstrap,
            AgentUnpacker(),
            self.clock,
            self._ids,
            recorder=self.recorder,
            tunnels=self.tunnels,
            images=self.images,
        )
        self.jobs = JobService(
            self.engine,
            self.store,
            self.blobs,
            self.clock,
            self._ids,
            lambda text, source, now, _: parse_job(text, source=source, now=now),
            change_spec,
            lambda: None,
            CodeService(self.store, self.blobs, AgentUnpacker(), self.clock, self._ids),
        )

    async def _open_store(self) -> Store:
        if self.ledger_url:
            return await open_store(self.ledger_url)
        self._in_memory = self._in_memory.kill()
        return self._in_memory

    def copy_ledger(self) -> MemoryStore:
        """As ``autopilot db backup`` does; of a ledger in memory."""
        return self._in_memory.copy()

    async def put_back(self, copy: MemoryStore) -> None:
        """The daemon is gone, its ledger too; a new one starts on the copy."""
        await self.stop()
        self.use_copy(copy)
        await self.start()

    def use_copy(self, copy: MemoryStore) -> None:
        """For the next daemon."""
        self._in_memory = copy.copy()

    def connect(self) -> Provider:
        if not self.over_http:
            return connect_in_process(self.sandbox, self.api_key, self.clock)
        settings = {"base_url": self.sandbox.url, "api_key": self.api_key, "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)

    def connect_others(self) -> tuple[Provider, ...]:
        """Markets of the daemon besides ``provider``."""
        return ()

    async def stop(self) -> None:
        await self.engine.calls.settle_for(PATIENCE_S)
        for each in (self.provider, *self.others):
            await each.close()
        await self.store.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    # --- time

    async def tick(self, times: int = 1, apart_s: float = TICK_S) -> None:
        """``times`` ticks of the engine; the agents act before each."""
        for _ in range(times):
            self.sandbox.synchronise()
            await self.agents.act(self.clock.now())
            await self.engine.tick()
            self._check_instances()
            self.clock.advance(apart_s)

    async def until(self, holds: Callable[[Job], bool], what: str, most: int = 150, apart_s: float = TICK_S) -> Job:
        """Ticks until ``holds`` of the job."""
        for _ in range(most):
            job = await self.job()
            if holds(job):
                return job
            await self.tick(apart_s=apart_s)
        raise AssertionError(f"not within {most} ticks: {what}; {await self.story()}")

    async def until_running(self) -> Lease:
        return await self.until_at(JobStatus.RUNNING)

    async def until_at(self, status: JobStatus) -> Lease:
        job = await self.until(lambda job: job.status is status, f"the job is {status}")
        assert job.main is not None
        return job.main

    async def until_checkpoint(self) -> Lease:
        """Running, and with a checkpoint that the daemon has verified."""
        job = await self.until(
            lambda job: job.status is JobStatus.RUNNING and job.checkpoint is not None, "a first checkpoint"
        )
        assert job.main is not None
        return job.main

    async def until_over(self, status: JobStatus = JobStatus.SUCCEEDED) -> Job:
        """To the very end: the job over, every machine gone and its bill taken over; checks the books."""
        job = await self.until(lambda job: job.status.is_final, f"the job is {status}", most=400)
        assert job.status is status, await self.story()
        await self.until_settled()
        return await self.job()

    async def until_settled(self) -> None:
        """Until every machine is gone, and the second look at its bill, an hour later, has shown the same."""
        for _ in range(60):
            await self.tick()
            async with self.store.snapshot() as uow:
                open_leases = [lease for job in await uow.jobs.list_open() for lease in job.leases]
                is_all_gone = not open_leases and not await uow.leases.list_orphans()
                if is_all_gone and not await uow.leases.list_unsettled():
                    break
            if is_all_gone:
                self.clock.advance(300)
        await self.check_books()

    # --- what happens

    async def submit(self, text: str = JOB, *, accept_any: bool = False) -> Job:
        """``accept_any``: also a job whose money or time will not do, as its owner may ask."""
        least = 0.0 if accept_any else LEAST_PROBABILITY
        body = await self.jobs.submissions.submit(
            [Sent(text, "job.toml")], itemgetter(0), dry_run=False, least_probability=least, owner=1000, again=True
        )
        self.job_id = body["job"]["id"]
        self.plan = body["plan"]
        return await self.job()

    async def running(self, text: str = JOB, *, accept_any: bool = False) -> Lease:
        await self.tick()
        await self.submit(text, accept_any=accept_any)
        return await self.until_running()

    async def emu(self, method: str, name: str, **wish: Any) -> Any:
        """Call the market's control API."""
        async with self.http.request(method, f"{self.sandbox.url}/_emu/{name}", json=wish) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def fault(self, on: str, kind: str, **more: Any) -> None:
        await self.emu("POST", "fault", on=on, kind=kind, **more)

    async def clear_faults(self) -> None:
        await self.emu("DELETE", "faults")

    async def requests(self, family: str) -> int:
        """How many calls of that family the market has seen."""
        counted: dict[str, int] = await self.emu("GET", "requests")
        return counted.get(family, 0)

    def instance(self, lease: Lease) -> Contract:
        """The market's own record of a lease's instance."""
        return self.market.instances[int(lease.instance_id or 0)]

    def rival(self, lease: Lease, times: str) -> None:
        """Somebody bids ``times`` our bid for the same GPUs."""
        instance = self.instance(lease)
        bid = (instance.price * D(times)).quantize(D("0.001"))
        self.market.add_rival(instance.machine_id, instance.gpu_ids, bid)

    def raise_other_floors(self, lease: Lease, times: str) -> None:
        for machine in self.market.machines.values():
            if machine.spec.machine_id != int(lease.machine_id):
                self.market.set_floor(machine.spec.machine_id, (machine.floor * D(times)).quantize(D("0.0001")))

    async def rent_by_hand(self, label: str, **changes: Any) -> Contract:
        """What somebody else, or a create of ours that lands late, makes at the market."""
        self._made_by_hand.append(label)
        self.clock.advance(TICK_S)  # the market's limits count every client of the account
        job = parse_job(JOB, source="job.toml", now=self.clock.now())
        provider = self.connect()
        offers = await provider.offers(job.query)
        taken = {str(instance.machine_id) for instance in self.market.live()}
        offer = min((o for o in offers if o.machine_id not in taken), key=lambda o: o.floor or D(99))
        values: dict[str, Any] = {
            "label": label,
            "offer_id": offer.offer_id,
            "machine_id": offer.machine_id,
            "bid": (offer.floor or ZERO) + D("0.05"),
            "capacity_type": CapacityType.SPOT,
            "image": "some/image:1",
            "disk_gb": D(20),
            "env": {},
            "onstart": "true",
        }
        outcome = await provider.create(CreateRequest(**(values | changes)))
        await provider.close()
        assert isinstance(outcome, Done), outcome
        return self.market.instances[int(outcome.value.instance_id)]

    # --- what is known

    async def job(self) -> Job:
        async with self.store.snapshot() as uow:
            job = await uow.jobs.find(self.job_id)
        assert job is not None
        return job

    async def leases(self) -> tuple[Lease, ...]:
        async with self.store.snapshot() as uow:
            return await uow.leases.list_by_job(self.job_id)

    async def lease(self, lease_id: str) -> Lease:
        async with self.store.snapshot() as uow:
            lease = await uow.leases.get(lease_id)
        assert lease is not None
        return lease

    async def events(self) -> list[str]:
        async with self.store.snapshot() as uow:
            return [record.name for record in await uow.events.list_after()]

    async def entries(self) -> list[LedgerEntry]:
        async with self.store.snapshot() as uow:
            return [entry for lease in await self.leases() for entry in await uow.ledger.list_entries(lease.id)]

    async def spend(self) -> dict[str, Decimal]:
        """Posted, by instance."""
        async with self.store.snapshot() as uow:
            source = await uow.reports.sum_spend()
        return {row.key: row.posted for row in report(source, "instance", now=self.clock.now())}

    async def story(self) -> str:
        job = await self.job()
        leases = [(lease.state.value, lease.observed.status.value, lease.reason.value) for lease in await self.leases()]
        return f"{job.status} ({job.reason}), leases {leases}, events {await self.events()}"

    def creates(self) -> int:
        """Creates that reached the market, successful or not."""
        return sum(entry.kind == "create.requested" for entry in self.market.journal.entries)

    def sent(self, kind: str) -> list[dict[str, object]]:
        return [entry.fields for entry in self.market.journal.entries if entry.kind == kind]

    def ours(self) -> list[Contract]:
        """Live instances with our label."""
        return [i for i in self.market.live() if (i.label or "").startswith(OURS)]

    # --- what must always hold

    async def check_books(self) -> None:
        """Nothing of ours is left, every reserve is ended, and the ledger says what the market billed, exactly."""
        assert self.ours() == [], await self.story()
        rented = {str(i.id) for i in self.market.instances.values() if (i.order.label or "").startswith(OURS)}
        books = (await self.emu("GET", "books"))["books"]
        billed = {str(row["instance_id"]): D(row["billed"]) for row in books if str(row["instance_id"]) in rented}
        posted = await self.spend()
        apart = {key: (posted.get(key, ZERO), billed.get(key, ZERO)) for key in posted.keys() | billed.keys()}
        apart = {key: pair for key, pair in apart.items() if pair[0] != pair[1]}
        assert not apart, f"posted and billed differ: {apart}; {await self.story()}"
        reserves: dict[str, Decimal] = {}
        for entry in await self.entries():
            if entry.type in (EntryType.RESERVE, EntryType.VOID):
                reserves[entry.lease_id] = reserves.get(entry.lease_id, ZERO) + entry.amount
        assert not any(reserves.values()), f"reserves left open: {reserves}"

    def _check_instances(self) -> None:
        sent = Counter(str(row["label"]) for row in self.sent("create.requested"))
        sent.subtract(self._made_by_hand)
        twice = [label for label, times in sent.items() if times > 1]
        assert not twice, f"a create was sent twice: {twice}"


@asynccontextmanager
async def a_world(
    root: Path,
    wrap: WrapStore = lambda store: store,
    *,
    ledger_url: str = "",
    kind: type[World] = World,
    **market: Any,
) -> AsyncIterator[World]:
    clock = QuickClock()
    config = SandboxConfig(state_dir=root / "market", **{"real_processes": False, **market})
    async with running_sandbox(config, clock) as sandbox, ClientSession() as http:
        world = kind(root, clock, sandbox, http, wrap)
        world.ledger_url = ledger_url
        await world.start()
        try:
            yield world
        finally:
            await world.stop()
