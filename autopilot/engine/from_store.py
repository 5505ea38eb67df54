"""``autopilot resume --from-store``: a job goes on from what the store holds, after its ledger was put back from a
copy.

Such a job is parked as ``from_store``. Its store is read (``store_look``), and what the ledger does not know is taken
into it: machines with what they cost, the newest checkpoint that is whole, and a run epoch above all that were used.

A machine of the job that is still there is watched before that, for as long as a quarantine lasts. If its orders change
meanwhile, another daemon leads it: nothing is taken. Otherwise the newest becomes the job's own machine again, and any
other one is given back.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import structlog

from autopilot.domain import events as e
from autopilot.domain.instance import Instance
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Permit, Role
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.accrue import sum_unposted
from autopilot.engine.event_log import EventLog, checkpoint_lost, checkpoint_passed_over, store_read
from autopilot.engine.invoices import LATEST_BILL
from autopilot.engine.observe import Reading
from autopilot.engine.reconcile import lease_events
from autopilot.engine.rental_notes import find_note
from autopilot.engine.store_look import InStore, Known, Look, list_noted
from autopilot.engine.sweep import QUARANTINE_LASTS
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.orders import read_seq
from autopilot.policy.budget import left, unobserved_cost
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.store import EventRecord, Store, UnitOfWork
from autopilot.ports.unpacking import Unpacker

log = structlog.get_logger(__name__)

JOBS_AT_ONCE = 10
"""A tick looks into the store for so many jobs, to see whether the ledger is older, and at so many machines of each."""
MOST_TOLD = 20
"""Checkpoints that were passed over, by one event each."""
READ_WAIT_REAL_S = 1.0
"""How long a tick waits for what is read of the store."""


@dataclass(frozen=True, slots=True)
class OrdersSeen:
    """The orders of one machine, as they have been ``since`` then."""

    sha256: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Return:
    """What is known of one job that is to go on from the store. ``store`` None: it is not read yet."""

    machines: tuple[Lease, ...] | None = ()
    """Those that are not in the ledger and may still be there; None: it is unknown which these are."""
    is_contested: bool = False
    adopted: Lease | None = None
    store: InStore | None = None


class FromStore:
    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        unpacker: Unpacker,
        install_id: str,
        is_own_mailbox: Callable[[], bool],
    ) -> None:
        """``is_own_mailbox``: whether the mailbox still names this daemon as the one that leads."""
        self._store = store
        self._blobs = blobs
        self._unpacker = unpacker
        self._install_id = install_id
        self._is_own_mailbox = is_own_mailbox
        self._watched: dict[str, OrdersSeen] = {}
        self._looks: dict[str, asyncio.Task[InStore]] = {}
        """By job, for queries about what the store holds."""
        self._reads: dict[str, asyncio.Task[InStore]] = {}
        """The same, to be acted upon."""
        self._compared: set[str] = set()
        self._waits_for_settings: set[str] = set()
        self._machines: dict[str, dict[str, Lease]] = {}
        """By job, of those that are to go on from the store: its machines as they are noted there."""
        self.behind: dict[str, tuple[Lease, ...]] = {}
        """By job: machines of it that the store knows and the ledger does not."""

    async def look(self, job: Job, now: datetime) -> InStore | None:
        """What the store holds of the job beyond the ledger; None: it is still being read, ask again.

        Raises ``BlobUnavailable``.
        """
        return await self._read_on(self._looks, job, now)

    async def _read_on(self, reads: dict[str, asyncio.Task[InStore]], job: Job, now: datetime) -> InStore | None:
        read = reads.get(job.id)
        if read is None:
            read = reads[job.id] = asyncio.create_task(self._read(job, now))
        await asyncio.wait({read}, timeout=READ_WAIT_REAL_S)
        if not read.done():
            return None
        reads.pop(job.id, None)
        return read.result()

    async def find_returns(
        self, jobs: Iterable[Job], readings: Mapping[str, Reading], now: datetime
    ) -> dict[str, Return]:
        """For each job that is to resume from the store, by id."""
        returns: dict[str, Return] = {}
        asked = {job.id: job for job in jobs if is_asked(job)}
        for job_id in self._machines.keys() - asked.keys():
            del self._machines[job_id]
        self._waits_for_settings &= asked.keys()
        for job_id in self._reads.keys() - asked.keys():
            self._reads.pop(job_id).cancel()  # what it has read is of another time
        for job in asked.values():
            try:
                returns[job.id] = await self._find(job, readings, now)
            except BlobUnavailable as problem:
                log.warning("store.unread", job=job.id, reason=str(problem))
                known = self._machines.get(job.id)
                returns[job.id] = Return(None if known is None else tuple(known.values()))
            except Exception:
                # A failure affects only its own job, and that job's machines end as any unwanted ones do.
                log.exception("store.reading_failed", job=job.id)
        return returns

    async def compare(self, jobs: Iterable[Job]) -> None:
        """See of a few jobs whether the store knows machines of theirs that the ledger does not; of each job once."""
        jobs = [job for job in jobs if not job.is_array and job.array_id is None]
        self.behind = {job.id: self.behind[job.id] for job in jobs if job.id in self.behind}
        self._compared &= {job.id for job in jobs}
        for job in [job for job in jobs if job.id not in self._compared][:JOBS_AT_ONCE]:
            try:
                unknown = await self._list_unknown(job)
            except BlobUnavailable:
                continue  # the next tick asks again
            self._compared.add(job.id)
            if unknown:
                self.behind[job.id] = unknown
                log.error("ledger.behind_store", job=job.id, machines=len(unknown))

    async def _list_unknown(self, job: Job) -> tuple[Lease, ...]:
        """Raises ``BlobUnavailable``."""
        noted = await list_noted(self._blobs, job.id)
        # The store is listed before the ledger is read: a lease is committed before it is noted.
        async with self._store.snapshot() as uow:
            unknown = noted - {lease.id for lease in await uow.leases.list_by_job(job.id)}
        found = [await find_note(self._blobs, job.id, lease_id) for lease_id in sorted(unknown)[-JOBS_AT_ONCE:]]
        return tuple(lease for lease in found if lease is not None)

    async def apply(
        self,
        uow: UnitOfWork,
        event_log: EventLog,
        seen: Return,
        readings: Mapping[str, Reading],
        busy: Collection[str],
        params: Params,
        now: datetime,
    ) -> None:
        """Take into the ledger what the store has. The rows that others refer to are saved here."""
        job = event_log.job
        if not is_asked(job):
            return
        if seen.is_contested:
            self._watched.clear()  # a new request waits for the full time again
            event_log.apply(e.StatusSet(JobStatus.PARKED, Reason.OTHER_DAEMON, now))
        if seen.is_contested or seen.store is None:
            return
        store = seen.store
        event_log.apply(e.EpochRaised(store.run_epoch, now))
        regained = [lease for lease in store.leases if await uow.leases.get(lease.id) is None]
        for lease in regained:
            if seen.adopted is not None and lease.id == seen.adopted.id:
                _regain(event_log, seen.adopted, readings, busy, now)
            else:
                _regain(event_log, lease, readings, busy, now)
                _end(event_log, lease.id, readings, now)
        event_log.records += _tell(job.id, store, len(regained), now)
        if store.chosen is not None:
            event_log.apply(e.CheckpointVerified(store.chosen, now))
        event_log.apply(e.StatusSet(JobStatus.PENDING, Reason.FROM_STORE, now))
        if seen.adopted is not None:
            _put_to_work(event_log, seen.adopted.id, regained, params, now)
        ids = {lease.id for lease in regained}
        await self._save(uow, [lease for lease in event_log.job.leases if lease.id in ids], store.missing)
        self.behind.pop(job.id, None)
        self._watched = {name: at for name, at in self._watched.items() if name not in ids}

    async def _save(self, uow: UnitOfWork, regained: Iterable[Lease], missing: Iterable[Checkpoint]) -> None:
        """Rows that others refer to: the checkpoint of a machine, and what it has cost."""
        for lease in regained:
            await uow.leases.save(lease)
        for checkpoint in missing:
            await uow.checkpoints.remove(checkpoint)

    async def _find(self, job: Job, readings: Mapping[str, Reading], now: datetime) -> Return:
        known = await self._read_known(job)
        if job.id not in self._machines:
            self._machines[job.id] = await self._look_at(job, known).read_machines()
        noted = self._machines[job.id].values()
        unknown = [lease for lease in noted if lease.id not in known.leases and not lease.is_over]
        asked = {reading.provider: reading for reading in readings.values()}
        # A market that was not read, or is not in the settings any more, proves no machine gone.
        self._say_absent(job, {lease.provider for lease in unknown} - asked.keys())
        of_markets = [asked.get(lease.provider) for lease in unknown]
        if any(reading is None or reading.instances is None or not reading.is_fresh for reading in of_markets):
            return Return(tuple(unknown))
        present = [(lease, shown) for lease in unknown if (shown := _find_shown(lease, asked.get(lease.provider)))]
        watched = [(lease, await self._watch(job, lease, now)) for lease, _ in present]
        if not self._is_own_mailbox() or any(since is None for _, since in watched):
            return Return(tuple(unknown), is_contested=True)
        if any(now - since < QUARANTINE_LASTS for _, since in watched if since is not None):
            return Return(tuple(unknown))
        store = await self._read_on(self._reads, job, now)
        adopted = await self._choose(job, [lease for lease, _ in present], now) if store is not None else None
        return Return(tuple(unknown), adopted=adopted, store=store)

    def _say_absent(self, job: Job, markets: set[str]) -> None:
        """Only the user can end this wait: once for each job."""
        if markets and job.id not in self._waits_for_settings:
            self._waits_for_settings.add(job.id)
            log.error(
                "store.market_absent",
                job=job.id,
                markets=sorted(markets),
                consequence="it waits: a machine of it may still be there",
                remedy="put the market back into the settings, and restart the daemon",
            )

    async def _watch(self, job: Job, lease: Lease, now: datetime) -> datetime | None:
        """Since when its orders are as they are; None: they have changed since they were first seen."""
        orders = await self._blobs.get(orders_key(job.id, lease.id)) or b""
        sha256 = hashlib.sha256(orders).hexdigest()
        seen = self._watched.setdefault(lease.id, OrdersSeen(sha256, now))
        return seen.since if seen.sha256 == sha256 else None

    async def _choose(self, job: Job, present: Sequence[Lease], now: datetime) -> Lease | None:
        """Of the machines that are there, the one that was last to run the command; none that had to leave."""
        fit = [lease for lease in present if lease.is_wanted and lease.orders.role in (Role.RUN, Role.WAIT)]
        fit = [lease for lease in fit if lease.held_until is None and lease.instance_id is not None]
        for lease in sorted(fit, key=lambda lease: (lease.orders.run_epoch, lease.id), reverse=True):
            seq = read_seq(await self._blobs.get(orders_key(job.id, lease.id)) or b"", job.id, lease)
            if seq is not None:
                # It was unobserved until now: its silence counts from here on.
                agent = replace(lease.agent, seen_at=now)
                return replace(lease, permit=Permit(max(seq, lease.permit.seq)), agent=agent)
        return None

    async def _read(self, job: Job, now: datetime) -> InStore:
        return await self._look_at(job, await self._read_known(job)).read_all(now)

    def _look_at(self, job: Job, known: Known) -> Look:
        return Look(self._blobs, self._unpacker, self._install_id, job, known)

    async def _read_known(self, job: Job) -> Known:
        async with self._store.snapshot() as uow:
            return await Known.read(uow, job.id)


def _tell(job_id: str, store: InStore, machines: int, now: datetime) -> list[EventRecord]:
    told = [store_read(job_id, store.chosen, machines, store.run_epoch, now)]
    for each in store.passed_over[:MOST_TOLD]:
        told.append(checkpoint_passed_over(job_id, each.lease_id, each.number, each.why, now))
    return [*told, *(checkpoint_lost(checkpoint, now) for checkpoint in store.missing)]


def is_asked(job: Job) -> bool:
    return job.status is JobStatus.PARKED and job.reason is Reason.FROM_STORE


def spared_by(returns: Collection[Return]) -> Callable[[str], bool]:
    """Whether the sweep leaves the machine with that label alone: it is watched, or taken in by this very tick."""
    if any(found.machines is None for found in returns):
        return lambda _: True
    labels = {lease.label for found in returns if not found.is_contested for lease in found.machines or ()}
    return labels.__contains__


def _find_shown(lease: Lease, reading: Reading | None) -> Instance | None:
    shown = reading.instances if reading is not None and reading.instances is not None else ()
    ours = (each for each in shown if each.label == lease.label)
    return next((each for each in ours if lease.instance_id in (None, each.instance_id)), None)


def _without_late_bill(lease: Lease, now: datetime) -> Lease:
    """For one that is gone for longer than bills are queried, its daemon's own estimate is final."""
    if lease.ending.gone_at is None or now - lease.ending.gone_at < LATEST_BILL:
        return lease
    return replace(lease, billing=replace(lease.billing, settled_at=now))


def _regain(
    event_log: EventLog, lease: Lease, readings: Mapping[str, Reading], busy: Collection[str], now: datetime
) -> None:
    """As its ledger had it last, and what its market shows of it now."""
    event_log.apply(e.LeaseRegained(_without_late_bill(lease, now), now))
    reading = readings.get(lease.provider)
    for event in lease_events(lease, reading, busy, now) if reading else ():
        event_log.apply(event)


def _end(event_log: EventLog, lease_id: str, readings: Mapping[str, Reading], now: datetime) -> None:
    """It is unwanted: destroyed, listed or not, unless its user has given it another label."""
    lease = next(each for each in event_log.job.leases if each.id == lease_id)
    reading = readings.get(lease.provider)
    shown = reading.instances if reading is not None and reading.instances is not None else ()
    if any(each.instance_id == lease.instance_id and not lease.is_of(each) for each in shown) and not lease.is_over:
        event_log.apply(e.LeaseGone(lease_id, now, taken_over=True))
    elif lease.state is LeaseState.INTENT:
        # No list shows a machine of it. Should one come up, or stand on a bill, it is known.
        event_log.apply(e.LeaseMissed(lease_id, now))
        event_log.apply(e.LeaseAbandoned(lease_id, Reason.NEVER_APPEARED, now))
    else:
        event_log.apply(e.ReleaseRequested(lease_id, Reason.ORPHAN, now))


def _put_to_work(event_log: EventLog, lease_id: str, regained: Sequence[Lease], params: Params, now: datetime) -> None:
    """Under a run epoch of its own, which fences its earlier runs; if the budget covers what it has cost."""
    ids = {lease.id for lease in regained}
    cost = sum((_cost(lease, params, now) for lease in event_log.job.leases if lease.id in ids), ZERO)
    job = event_log.job
    lease = next((lease for lease in job.leases if lease.id == lease_id), None)
    if lease is None or not lease.is_wanted:
        return
    room = left(replace(job, spent=job.spent + cost), params)
    if room is not None and room <= ZERO:
        log.warning("lease.unpaid", lease=lease_id, job=job.id, cost=str(cost), left=str(room))
        event_log.apply(e.ReleaseRequested(lease_id, Reason.BUDGET_EXHAUSTED, now))
        return
    event_log.apply(e.RunOrdered(lease_id, Reason.FROM_STORE, now))


def _cost(lease: Lease, params: Params, now: datetime) -> Decimal:
    """Dollars of which nothing is booked yet."""
    return sum(sum_unposted(lease, {}, now).values(), ZERO) + unobserved_cost(lease, now, params)
