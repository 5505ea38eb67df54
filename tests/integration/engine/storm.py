"""A storm: ten jobs with deadlines at once, on a market of hosts with several GPUs, against rivals whom no list shows.

Everything random comes from one seed. What must hold of it at the end is read from the market's own journal and books.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.clock import ManualClock
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import LostBidRules
from autopilot.domain.reasons import Reason
from autopilot_lab.sandbox.catalogue import default_catalogue
from autopilot_lab.sandbox.market.instances import Cause, Contract
from autopilot_lab.sandbox.market.journal import JournalEntry
from autopilot_lab.sandbox.market.machines import HostState, Machine, MachineSpec
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.units import NANO
from tests.integration.engine.engine_world import LIMITS, D, World

START = ManualClock().now()
TICK_S = 45.0
CENT = D("0.01")
MOST_RENTED, MOST_CREATES = 12, 30
"""Of one job in all the storm: machines, and creates that the market sees. What is refused costs nothing."""
HOLDS = timedelta(hours=LostBidRules().first_h) - timedelta(minutes=2)
"""A bid that lost is not repeated for so long at the least: after a restart its intent is known, not its answer."""
ENDED = (Reason.COMPLETED, Reason.RETRY)
RESTARTS_PER_TICK = 0.015
GUSTS_APART_S = 150.0
"""On the average."""
START_TAKES = timedelta(minutes=10)
"""To find a machine and to be loaded there, with lost answers and refusals on the way."""
FAULTS = (
    ("create", "effect_then_reset", 0.15),
    ("create", "effect_then_500", 0.1),
    ("create", "success_false", 0.05),
    ("create", "http_429", 0.1),
    ("list", "stale_list", 0.1),
    ("list", "truncated_page", 0.03),
    ("list", "http_503", 0.05),
    ("search", "http_429", 0.1),
    ("bid", "http_429", 0.2),
    ("bid", "effect_then_reset", 0.1),
    ("destroy", "http_429", 0.2),
    ("destroy", "no_effect_success", 0.1),
    ("charges", "http_503", 0.1),
)
"""Where, what, and the chance that it hits a call."""


@dataclass(frozen=True)
class Wish:
    """One of the ten. Times in minutes of market time."""

    gpu: str
    work: int
    within: int
    budget: str | None = None
    keeps: bool = True
    fails: int = 0
    """So many attempts end with 1 before one ends well."""

    def toml(self, name: str) -> str:
        lines = [f'name = "{name}"', 'image = "some/image:1"', 'run = "python train.py"']
        lines += ["[resources]", f'gpu = "{self.gpu}"', 'disk = "20GB"']
        lines += ["[work]", f'estimate = "{self.work}m"', "[deadline]", f'within = "{self.within}m"']
        if self.budget:
            lines += ["[budget]", f'total = "{self.budget}"']
        if self.keeps:
            lines += ["[checkpoint]", 'path = "ckpt"', 'interval = "3m"']
        if self.fails:
            lines += ["[retry]", f"max_attempts = {self.fails + 1}"]
        return "\n".join(lines)


TEN = (
    Wish("RTX 4090:1", 12, 80, budget="$4"),
    Wish("RTX 4090:1", 20, 60),
    Wish("RTX 4090:1", 20, 110, budget="$5"),
    Wish("RTX 4090:1", 10, 45, keeps=False),
    Wish("RTX 4090:1", 15, 100, fails=1),
    Wish("RTX 4090:2", 15, 75),
    Wish("RTX 4090:2", 12, 100, budget="$6"),
    Wish("RTX 3090:1", 15, 90, fails=1),
    Wish("RTX 3090:1", 25, 120, budget="$3"),
    Wish("A100 SXM4:1", 15, 60, budget="$9"),
)


def hosts(seed: int) -> tuple[MachineSpec, ...]:
    """The default market without unwanted machines, plus three hosts of eight GPUs."""
    made = [spec for spec in default_catalogue(seed, START) if spec.verified and spec.gpu_name != "H100 SXM"]
    models = [next(spec for spec in made if spec.gpu_name == name) for name in ("RTX 4090", "RTX 4090", "RTX 3090")]
    more = (
        replace(
            spec,
            machine_id=50_000 + i,
            gpu_count=8,
            cpu_cores=8 * spec.cpu_cores,
            cpu_ram_mb=8 * spec.cpu_ram_mb,
            disk_gb=8 * spec.disk_gb,
            floor=(spec.floor * D("0.95")).quantize(D("0.0001")),
        )
        for i, spec in enumerate(models)
    )
    return (*made, *more)


class Storm(World):
    """A world with ten jobs and bad weather."""

    limits = replace(LIMITS, max_instances=20, launches_per_hour=60)

    def brew(self, seed: int) -> None:
        self.rng = random.Random(f"storm:{seed}")
        self.wishes: dict[str, Wish] = {}
        self.deadlines: dict[str, datetime] = {}
        self._next_gust = self.clock.now()

    async def submit_all(self) -> None:
        for number, wish in enumerate(TEN):
            job = await self.submit(wish.toml(f"storm-{number}"), accept_any=True)
            assert job.spec.deadline is not None
            self.wishes[job.id], self.deadlines[job.id] = wish, job.spec.deadline
            self.agents.steps_of[job.id] = wish.work * 60
            self.agents.failures[job.id] = wish.fails

    async def set_in(self) -> None:
        """Rivals on half of all GPUs, a host that is full and yet listed, echoes in the list, calls that fail."""
        full = self.rng.choice([m for m in self.market.machines.values() if m.spec.gpu_name == "RTX 4090"])
        await self.emu("POST", "full", machine_id=full.spec.machine_id)
        await self.emu("POST", "echo", lasts_s=900)
        for on, kind, probability in FAULTS:
            await self.fault(on, kind, times=None, probability=probability, lag_s=60)
        for machine in self.market.machines.values():
            for gpu in machine.spec.gpu_ids:
                if self.rng.random() < 0.5:
                    self._add_rival(machine, (gpu,), machine.floor, 1.02, 1.5)

    async def blow(self) -> None:
        """Now and then a rival outbids us, an on-demand customer comes, or a host is lost."""
        if self.clock.now() < self._next_gust:
            return
        self._next_gust = self.clock.now() + timedelta(seconds=self.rng.expovariate(1 / GUSTS_APART_S))
        victims = [instance for instance in self.ours() if instance.holding]
        if not victims:
            return
        victim = self.rng.choice(victims)
        machine = self.market.machines[victim.machine_id]
        kind = self.rng.choices(("outbid", "displaced", "host"), (7, 2, 1))[0]
        if kind == "outbid" and victim.is_bid:
            self._add_rival(machine, victim.gpu_ids, victim.price, 1.001, 1.3)
        elif kind == "displaced" and victim.is_bid and self._leaves_enough(victim):
            self.market.add_on_demand(machine.spec.machine_id, victim.gpu_ids, self.rng.uniform(600, 3600))
        elif kind == "host" and self._leaves_enough(victim) and await self._can_start_elsewhere(victim):
            self.market.set_host(machine.spec.machine_id, HostState.OFFLINE)
            back = self.clock.now() + timedelta(seconds=self.rng.uniform(60, 400))
            self.market.agenda.at(back, lambda: self.market.set_host(machine.spec.machine_id, HostState.ONLINE))

    def _leaves_enough(self, victim: Contract) -> bool:
        """Whether other hosts have room for all jobs that want such GPUs: no storm takes the last ones away."""
        model, count = self.market.machines[victim.machine_id].spec.gpu_name, len(victim.gpu_ids)
        others = [
            ask
            for ask in self.market.asks()
            if ask.rentable and not ask.machine.is_full and len(ask.chunk) == count
            if ask.machine.spec.gpu_name == model and ask.machine.spec.machine_id != victim.machine_id
        ]
        return len(others) >= sum(wish.gpu == f"{model}:{count}" for wish in self.wishes.values())

    async def _can_start_elsewhere(self, victim: Contract) -> bool:
        """Whether its job has time to lose a whole run: nothing can be done for one whose last machine fails."""
        job_id = next((lease.job_id for lease in await self.leases() if lease.label == victim.label), None)
        if job_id is None:
            return False
        run = timedelta(minutes=self.wishes[job_id].work) + START_TAKES
        return self.clock.now() + 2 * run <= self.deadlines[job_id]

    def _add_rival(self, machine: Machine, gpu_ids: tuple[int, ...], price: Decimal, low: float, high: float) -> None:
        """A bid of ``low`` to ``high`` times ``price``; one in four of them never leaves."""
        bid = (price * D(f"{self.rng.uniform(low, high):.4f}")).quantize(D("0.001"))
        stay_s = None if self.rng.random() < 0.25 else self.rng.uniform(600, 5400)
        self.market.add_rival(machine.spec.machine_id, gpu_ids, bid, stay_s)

    async def all_jobs(self) -> list[Job]:
        async with self.store.snapshot() as uow:
            found = [await uow.jobs.find(job_id) for job_id in self.wishes]
        return [job for job in found if job is not None]

    async def rage(self) -> None:
        """Until every job is over; then the sky clears, and every bill is looked at twice."""
        last = max(self.deadlines.values()) + timedelta(hours=1)
        while await self._is_any_open():
            assert self.clock.now() < last, await self.log_book()
            await self.blow()
            if self.rng.random() < RESTARTS_PER_TICK:
                await self.restart()
            await self.tick(apart_s=TICK_S)
        await self.clear_faults()
        await self.until_settled()

    async def _is_any_open(self) -> bool:
        async with self.store.snapshot() as uow:
            return any(not job.status.is_final for job in await uow.jobs.list_open())

    async def leases(self) -> tuple[Lease, ...]:
        """Of all ten."""
        async with self.store.snapshot() as uow:
            return tuple([lease for job_id in self.wishes for lease in await uow.leases.list_by_job(job_id)])

    async def count_by_job(self, kind: str) -> Counter[str]:
        """Entries of the market's journal about machines of each job."""
        job_of = {lease.label: lease.job_id or "" for lease in await self.leases()}
        return Counter(job_of[str(row["label"])] for row in self.sent(kind))

    async def books_apart(self) -> dict[str, tuple[Decimal, Decimal]]:
        """By instance: what the ledger has posted, and what it cost to the nano-dollar by the market's books."""
        posted = await self.spend()
        return {
            str(i.id): (posted.get(str(i.id), ZERO), to_decimal(i.meter.total(self.market.now), NANO))
            for i in self.market.instances.values()
        }

    async def log_book(self) -> str:
        """What became of each job, for the message of a test that fails."""
        leases = await self.leases()
        lines = []
        for job in await self.all_jobs():
            lines.append(f"{self.wishes[job.id]}: {job.status} ({job.reason}), over at {job.finished_at}")
            for each in (lease for lease in leases if lease.job_id == job.id):
                lines.append(
                    f"   {each.intended_at:%H:%M:%S} {each.capacity_type} {each.machine_id} {each.bid}"
                    f" {each.state} {each.reason} {each.instance_id}"
                )
        return "\n".join(lines)


# --- what must hold, by the market's own journal and books


@dataclass(frozen=True)
class Lost:
    bid: Decimal
    at: datetime


class LostBids:
    """What the market's journal says of bids that lost, entry by entry.

    A machine that is outbid after its work has ended is released for that: what it lost to is not examined.
    """

    def __init__(self, storm: Storm, ended: frozenset[str]) -> None:
        """``ended``: labels of machines on which a job ended."""
        self._instances = storm.market.instances
        self._ended = ended
        self._lost: dict[tuple[int, int], Lost] = {}
        self._outbid: set[int] = set()
        self.repeated: list[str] = []
        """Creates that bid no more than what had lost on that machine within the hour, for as many GPUs."""

    def read(self, entry: JournalEntry) -> None:
        instance = self._instances.get(int(str(entry.fields.get("instance_id", 0))))
        place = _place(entry, instance)
        if place is None:
            return
        key, price = place
        before = self._lost.get(key)
        is_below = before is not None and price <= before.bid
        if entry.kind in ("create.lost", "instance.created") and before and is_below and entry.at - before.at < HOLDS:
            self.repeated.append(f"{key}: {price}, {entry.at - before.at} after {before.bid} lost: {entry.fields}")
        if self._has_lost(entry, instance):
            self._lost[key] = Lost(max(price, before.bid if before else price), entry.at)
        elif entry.kind == "instance.running" and instance and before and is_below and instance.created_at > before.at:
            del self._lost[key]  # Rented since, at no higher a bid: the rival is gone.

    def _has_lost(self, entry: JournalEntry, instance: Contract | None) -> bool:
        """At its create, or because it was outbid and given up."""
        if instance is None:
            return entry.kind == "create.lost"
        if entry.kind == "instance.paused" and entry.fields["cause"] == Cause.OUTBID:
            self._outbid.add(instance.id)
        elif entry.kind == "instance.resumed":
            self._outbid.discard(instance.id)
        is_given_up = entry.kind == "instance.destroyed" and instance.id in self._outbid
        return entry.kind == "instance.created_stopped" or (is_given_up and instance.label not in self._ended)


def _place(entry: JournalEntry, instance: Contract | None) -> tuple[tuple[int, int], Decimal] | None:
    """The machine and number of GPUs, and the bid; None for what is no bid of ours."""
    if instance is not None and instance.is_bid:
        return (instance.machine_id, len(instance.gpu_ids)), instance.price_at(entry.at) or instance.price
    fields: dict[str, Any] = entry.fields
    if entry.kind == "create.lost" and fields["is_bid"]:
        return (fields["machine_id"], fields["num_gpus"]), fields["price"]
    return None


async def repeated_bids(storm: Storm) -> list[str]:
    ended = [lease.label for lease in await storm.leases() if lease.reason in ENDED]
    lost = LostBids(storm, frozenset(ended))
    for entry in storm.market.journal.entries:
        lost.read(entry)
    return lost.repeated


async def check(storm: Storm) -> None:
    for job in await storm.all_jobs():
        told = f"{storm.wishes[job.id]}: {job.status} ({job.reason})"
        assert job.status is JobStatus.SUCCEEDED, f"{told}; {await storm.log_book()}"
        assert job.finished_at is not None
        assert job.finished_at <= storm.deadlines[job.id], f"{told}; {await storm.log_book()}"
    repeated = await repeated_bids(storm)
    assert not repeated, "\n".join([*repeated, await storm.log_book()])
    assert max((await storm.count_by_job("create.requested")).values()) <= MOST_CREATES
    assert max((await storm.count_by_job("instance.created")).values()) <= MOST_RENTED
    await storm.check_books()
    apart = await storm.books_apart()
    assert not {key: pair for key, pair in apart.items() if abs(pair[0] - pair[1]) > CENT}, apart
