"""The engine: one ``tick`` does everything, start-up included.

    read markets and mailboxes (no transaction) → one transaction: evolve, accrue, decide, guard, intents
    → write orders → send calls, each recording its own outcome → settle, tidy up

A crash between any two steps loses nothing: what was committed is found again in the store, what was sent is found
again at the market by its label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import structlog

from autopilot.certify.job import spec_for_lease
from autopilot.certify.run import Turn
from autopilot.domain import events as e
from autopilot.domain import gpu_names
from autopilot.domain.actions import Acquire, Action, ChangeBid, Decision, Hold, Release, Start, Stop
from autopilot.domain.delegation import NO_LIMITED_USERS, Settled
from autopilot.domain.errors import UserError
from autopilot.domain.evolve import HEARTBEAT_LASTS
from autopilot.domain.job import GpuChoice, Job, JobSpec
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.market import Allowance, Market, ProviderView, UncertifiedRoom
from autopilot.domain.money import ZERO
from autopilot.domain.offer import DeadMan, Offer, OfferQuery
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.reported_time import find_clock_error
from autopilot.engine.accounts import IS_ANOTHER, Accounts
from autopilot.engine.accrue import hold_reserves, post_accruals
from autopilot.engine.actions import action_events, action_note, intended_lease, veto_note
from autopilot.engine.arrays import Arrays
from autopilot.engine.calls import AVOID_AFTER_RELEASE, Avoid, Calls
from autopilot.engine.certification import Certification, CertifyRules
from autopilot.engine.checkpoint_retention import CheckpointRetention
from autopilot.engine.code_retention import CodeRetention
from autopilot.engine.conditions import ConditionLog
from autopilot.engine.dialling import Dialling
from autopilot.engine.drift import DriftLog
from autopilot.engine.event_log import EventLog, contain
from autopilot.engine.firings import Firings
from autopilot.engine.from_store import FromStore, Return, spared_by
from autopilot.engine.history import History, Retention
from autopilot.engine.host_memory import HostMemory
from autopilot.engine.hosts import Hosts
from autopilot.engine.images import Images
from autopilot.engine.lost_bids import LOST_BIDS, LostBids
from autopilot.engine.mailbox import Mail, Mailbox, mail_events
from autopilot.engine.maintenance import Maintenance
from autopilot.engine.observe import Reading, Watch, join_offers
from autopilot.engine.older_checkpoints import step_back
from autopilot.engine.orphans import Orphans
from autopilot.engine.outlook import Outlooks
from autopilot.engine.past_prices import PastPrices
from autopilot.engine.predecessors import judge_waiting, look_for_outputs
from autopilot.engine.purses import read_array_purses, read_market_purses, read_purses
from autopilot.engine.reconcile import failed_starts, lease_events
from autopilot.engine.regained import Regained
from autopilot.engine.registry_logins import Logins, RegistryAccess
from autopilot.engine.rental_notes import RentalNotes
from autopilot.engine.start_faults import GAVE_UP, note_last_words, take_start_faults
from autopilot.engine.unrecorded_cancels import UnrecordedCancels
from autopilot.engine.unwatched import end_bound
from autopilot.engine.waits import Waits
from autopilot.engine.watching import Watching
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.mailbox.report_shapes import SshLogin
from autopilot.mailbox.wire import EXEC
from autopilot.policy.budget import commitment, has_long_permit, left, unobserved_cost
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, allowance, guard
from autopilot.policy.own_bids import leave_room, ours_in_pools
from autopilot.policy.permits import PermitBound, give_permit_s
from autopilot.policy.scene import Scene
from autopilot.policy.uncertified import room_note
from autopilot.ports.blobs import BlobStore
from autopilot.ports.bootstrap import Bootstrap
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.images import ImageReader
from autopilot.ports.provider import Provider
from autopilot.ports.recording import Recorder
from autopilot.ports.store import BidRecord, DecisionRecord, Store, UnitOfWork
from autopilot.ports.tunnels import Tunnels
from autopilot.ports.unpacking import Unpacker
from autopilot.pricing.availability.prior import PHASES

log = structlog.get_logger(__name__)

PERMIT_EVERY = timedelta(seconds=60)
OBSERVATION_LASTS = timedelta(minutes=30)
"""A machine whose market could not be read for so long gets no new permit: what is unobserved must end by itself."""
CALLS_WAIT_REAL_S = 10.0
"""How long a tick waits for its calls before it continues without them."""


CLOCK_IS_WRONG = "the clock here is wrong by what the markets say; autopilot doctor says by how much"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    install_id: str
    limits: Limits
    params: Params
    permit_ttl_s: int = 900
    settle_delay: timedelta = timedelta(minutes=10)
    """From GONE to the first look at the market's bill for it."""
    poll_intervals: Mapping[str, timedelta] = field(default_factory=dict)
    """Least time between two lists of a market; each tick where none is set."""
    retention: Retention = field(default_factory=Retention)
    certify: CertifyRules = field(default_factory=CertifyRules)
    settled: Settled = NO_LIMITED_USERS
    """Whom the settings limit."""
    watched: tuple[GpuChoice, ...] = ()
    """GPUs whose floors are recorded whether jobs run or not."""


def _no_password(name: str, server: str) -> str:
    raise UserError(f"there is no registry secret named {name!r}")


_NO_REGISTRY = RegistryAccess(_no_password, b"")


def _no_secret(name: str) -> str:
    raise UserError(f"there is no secret named {name!r}")


@dataclass(slots=True)
class _Outbox:
    """Calls to send once the transaction is committed."""

    creates: list[tuple[JobSpec, Lease]]
    bids: list[tuple[Lease, BidRecord, Decimal]]
    starts: list[Lease]
    stops: list[Lease]


def _lease_of(job: Job, lease_id: str) -> Lease:
    return next(lease for lease in job.leases if lease.id == lease_id)


class Engine:
    def __init__(
        self,
        config: EngineConfig,
        providers: Mapping[str, Provider],
        store: Store,
        blobs: BlobStore,
        bootstrap: Bootstrap,
        unpacker: Unpacker,
        clock: Clock,
        ids: Ids,
        secret: Callable[[str], str] = _no_secret,
        recorder: Recorder | None = None,
        registry: RegistryAccess = _NO_REGISTRY,
        is_own_mailbox: Callable[[], bool] = lambda: True,
        tunnels: Tunnels | None = None,
        images: ImageReader | None = None,
    ) -> None:
        """``secret``: the value of the user's secret of that name; raises ``UserError`` when there is none.
        ``is_own_mailbox``: whether the mailbox still names this daemon as the one that leads. ``tunnels``: what dials
        machines that cannot reach the store. ``images``: reads what images require; None: nothing is read."""
        self.config = config
        self._recorder = recorder
        self.watches = {
            name: Watch(provider, clock, config.poll_intervals.get(name, timedelta(0)))
            for name, provider in providers.items()
        }
        self.last_tick_at: datetime | None = None
        self.failing_since: datetime | None = None
        """When the first tick failed of those since the last whole one; None: the last one was whole."""
        self.failure = ""
        """Why the newest of them did."""
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._ids = ids
        self._avoid = Avoid(providers)
        self._host_memory = HostMemory(providers)
        self._lost_bids = LostBids(providers, config.params.lost_bids)
        self._logins = Logins(providers, store, config.install_id, registry)
        self.images = Images(images, self._logins.read, clock)
        self.calls = Calls(
            providers, store, bootstrap, clock, self._avoid, self._lost_bids, self._logins, config.params
        )
        self._watching = Watching(config.watched)
        self.outlooks = Outlooks(store, PHASES, config.params, self._watching.kinds)
        hosts = Hosts(providers, bootstrap, blobs, self._logins, config.params)
        self._mailbox = Mailbox(blobs, config.permit_ttl_s, self.outlooks.hazard_of, secret, unpacker, hosts)
        self.execs = self._mailbox.execs
        self.dialling = Dialling(providers, tunnels, clock)
        self.certification = Certification(config.certify, self.watches, self.dialling)
        self._arrays = Arrays(ids, config.params)
        self._orphans = Orphans(config.install_id, ids)
        self._conditions = ConditionLog(
            self.watches, self._orphans.is_quarantined, self.certification, self.dialling.list_troubles
        )
        self.waits = Waits()
        self.firings = Firings(store, clock, ids, config.settled, config.params)
        self._maintenance = Maintenance(providers, store, clock, config.settle_delay, config.install_id, ids)
        self._drift = DriftLog(providers, store, clock)
        self._history = History(store, clock, config.retention)
        self._past_prices = PastPrices(store)
        self._checkpoints = CheckpointRetention(store, blobs, unpacker)
        self._rentals = RentalNotes(blobs)
        self.from_store = FromStore(store, blobs, unpacker, config.install_id, is_own_mailbox)
        self.unrecorded_cancels = UnrecordedCancels()
        self._regained = Regained(config.limits)
        self._accounts = Accounts()
        self._code = CodeRetention(store, blobs)
        self._known_jobs: tuple[Job, ...] = ()
        self._with_room: frozenset[str] = frozenset()
        """Ids of parked jobs that may find room again."""
        self._exposure: Exposure | None = None
        """Where all jobs stood together at the end of the newest tick."""

    async def tick(self) -> None:
        """One pass over everything. Raises ``StoreUnavailable`` after having asked for the destroys that are due."""
        try:
            await self._pass_over_everything()
        except Exception as problem:
            self.failing_since = self.failing_since or self._clock.now()
            self.failure = str(problem) or repr(problem)
            raise
        self.failing_since, self.failure = None, ""

    async def _pass_over_everything(self) -> None:
        try:
            await self.firings.fire_due()
            revision = self._store.revision
            async with self._store.snapshot() as uow:
                self._known_jobs = await uow.jobs.list_open()
                orphans = await uow.leases.list_orphans()
                self._with_room = await self._regained.find(uow, self._known_jobs, self._clock.now())
                unused_code = await uow.code_copies.list_unused()
                if self.last_tick_at is None:
                    held_lately = await self._list_ended(uow)
                    self._mailbox.withdraw(held_lately)
                    for watch in self.watches.values():
                        watch.recall_bids(held_lately)
            leases = [lease for job in self._known_jobs for lease in job.leases] + list(orphans)
            readings = await self._read_markets(leases)
            mail = await self._read_mail(self._known_jobs)
            left = await look_for_outputs(self._blobs, self._known_jobs)
            await self.images.prepare(self._known_jobs)
            offers = await self._read_offers(self._known_jobs)
            watched = await self._watching.read(tuple(self.watches.values()), offers)
            self._past_prices.fill(
                [watch.provider for watch in self.watches.values()], [*offers, *watched], self._clock.now()
            )
            returns = await self.from_store.find_returns(self._known_jobs, readings, self._clock.now())
            jobs, outbox, orphans = await self._commit(readings, mail, left, returns, offers, watched, revision)
        except Exception:
            # Despite the failure: what is to be destroyed bills until it is.
            self._destroy_due(self.unrecorded_cancels.let_go(self._known_jobs, self._clock.now()), ())
            await self.calls.settle_for(CALLS_WAIT_REAL_S)
            raise
        self._known_jobs = jobs
        self.unrecorded_cancels.forget_recorded(jobs)
        await self.from_store.compare(jobs)
        await self._rentals.keep(jobs)
        await self._mailbox.admit(jobs, self.from_store.behind)
        await asyncio.gather(*(self._mailbox.write_orders(job, lease) for job in jobs for lease in job.leases))
        for spec, lease in outbox.creates:
            self.calls.create(spec, lease)
        for lease, record, current_bid in outbox.bids:
            self.calls.change_bid(lease, record, current_bid)
        for lease in outbox.starts:
            self.calls.start(lease)
        for lease in outbox.stops:
            self.calls.stop(lease)
        self._destroy_due(jobs, orphans)
        await self.calls.settle_for(CALLS_WAIT_REAL_S)
        await self.dialling.follow((lease for job in jobs for lease in job.leases), readings)
        self._mailbox.forget(
            frozenset(lease.id for job in jobs for lease in job.leases if not lease.is_over),
            frozenset(job.id for job in jobs),
        )
        await self._maintenance.reconcile()
        await self._logins.tidy(jobs, self._clock.now())
        await self._checkpoints.reconsider(self._mailbox.doubts(jobs), self._clock.now())
        await self._checkpoints.delete_surplus(jobs)
        await self._code.retire(unused_code, self._clock.now())
        await self._drift.keep()
        await self._history.tidy()
        await self.outlooks.refresh(self._clock.now())
        self.outlooks.forget(job.id for job in jobs)
        self.waits.forget(job.id for job in jobs)
        self._avoid.forget(job.id for job in jobs)
        self.last_tick_at = self._clock.now()

    @property
    def has_read_all(self) -> bool:
        """Whether the newest tick knew what every market lists."""
        return all(watch.last.known for watch in self.watches.values())

    @property
    def clock_error(self) -> timedelta | None:
        """By how much all markets that tell the time are ahead of our clock. While there is any, nothing is rented."""
        return find_clock_error((watch.provider.reported_time() for watch in self.watches.values()), self._clock.now())

    def uncertified_rooms(
        self, job_id: str | None = None, exposure: Exposure | None = None
    ) -> dict[str, UncertifiedRoom]:
        """By market without a certificate in force: what its allowance still allows, to that job.

        ``exposure``: where all jobs stand; None: as at the end of the newest tick.
        """
        exposure = exposure or self._exposure
        rooms: dict[str, UncertifiedRoom] = {}
        for market, purse in (exposure.market_purses if exposure is not None else {}).items():
            assert exposure is not None, "it has the purse"
            left = purse.left(exposure.leases, self.config.params)
            if left is not None and purse.allowance is not None:
                is_taken = purse.is_full(exposure.leases, besides=job_id)
                rooms[market] = UncertifiedRoom(purse.allowance, left, is_taken, purse.since, purse.proof)
        return rooms

    def has_machines(self) -> bool:
        """Whether one was rented, or may have been, as of the last tick."""
        return self._exposure is not None and any(not lease.is_over for lease in self._exposure.leases)

    def market_view(
        self, offers: tuple[Offer, ...], job_id: str | None, now: datetime, exposure: Exposure | None = None
    ) -> Market:
        """The market as a decision sees it now, with these offers; ``exposure`` as of ``uncertified_rooms``."""
        rooms = self.uncertified_rooms(job_id, exposure)
        clock_problem = CLOCK_IS_WRONG if self.clock_error is not None else ""
        views = {}
        for name, watch in self.watches.items():
            problem = clock_problem or (IS_ANOTHER if self._accounts.is_other(name) else "")
            views[name] = ProviderView(
                watch.provider.capabilities,
                known=watch.last.known and not problem and not self._orphans.is_quarantined(name, now),
                credit=watch.last.credit,
                lack=self.certification.lack_of(name, now),
                uncertified=rooms.get(name),
                search_problem=problem or watch.search_problem,
            )
        avoid = self._avoid.machines(job_id, now) if job_id else frozenset()
        seen = self._lost_bids.raise_floors(offers, now, self.config.params.bids.unit)
        offers = self._avoid.without_bids(seen.offers, job_id, now) if job_id else seen.offers
        return Market(views, offers, now, avoid, lost_bids=seen.lost, hosts=self._host_memory.known)

    def market_of(self, job: Job, offers: tuple[Offer, ...], now: datetime, exposure: Exposure | None = None) -> Market:
        """The same for a job that exists, with what is known of its image."""
        return replace(self.market_view(offers, job.id, now, exposure), image=self.images.facts_of(job.spec))

    def can_exec(self, lease_id: str) -> bool:
        """Whether the agent on that machine runs commands beside the job."""
        return self._mailbox.can(lease_id, EXEC)

    def login(self, lease_id: str) -> SshLogin | None:
        """Where the user may log in on that machine, by its own word."""
        return self._mailbox.login(lease_id)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        found = await asyncio.gather(*(watch.offers(query) for watch in self.watches.values()))
        return join_offers(found)

    async def gpu_names(self) -> tuple[str, ...]:
        """All kinds of GPU that the markets list; the shipped list replaces one that cannot be read."""
        listed = await asyncio.gather(*(watch.gpu_names() for watch in self.watches.values()))
        found = (name for names in listed for name in (gpu_names.NAMES if names is None else names))
        return tuple(dict.fromkeys(found)) or gpu_names.NAMES

    async def _list_ended(self, uow: UnitOfWork) -> list[Lease]:
        """Leases that an earlier daemon had: their orders may not have been deleted, and lists may show their bids."""
        since = self._clock.now() - ORDERS_URL_VALID_FOR
        of_open_jobs = [lease for job in self._known_jobs for lease in await uow.leases.list_by_job(job.id)]
        return [*of_open_jobs, *await uow.leases.list_to_reconcile(since), *await uow.leases.list_unresolved(since)]

    async def _read_markets(self, leases: Sequence[Lease]) -> dict[str, Reading]:
        readings = await asyncio.gather(*(watch.read(leases) for watch in self.watches.values()))
        return {reading.provider: reading for reading in readings}

    async def _read_mail(self, jobs: Sequence[Job]) -> dict[str, Mail]:
        pairs = [(job, lease) for job in jobs for lease in job.leases]
        now = self._clock.now()
        mails = await asyncio.gather(
            *(self._mailbox.read(job, lease, now) for job, lease in pairs), return_exceptions=True
        )
        read: dict[str, Mail] = {}
        for (_, lease), mail in zip(pairs, mails, strict=True):
            if isinstance(mail, BaseException):
                log.error("mailbox.failed", lease=lease.id, exc_info=mail)
            else:
                read[lease.id] = mail
        return read

    async def _read_offers(self, jobs: Sequence[Job]) -> dict[OfferQuery, tuple[Offer, ...]]:
        wants = (job for job in jobs if job.status.wants_capacity or job.id in self._with_room)
        may_rent = (job for job in wants if not job.waits_for_jobs)
        queries = sorted({job.spec.query for job in may_rent}, key=repr)
        found = await asyncio.gather(*(self.offers(query) for query in queries))
        return dict(zip(queries, found, strict=True))

    async def _commit(
        self,
        readings: Mapping[str, Reading],
        mail: Mapping[str, Mail],
        left: Mapping[str, bool],
        returns: Mapping[str, Return],
        offers: Mapping[OfferQuery, tuple[Offer, ...]],
        watched: Mapping[OfferQuery, tuple[Offer, ...]],
        revision: int,
    ) -> tuple[tuple[Job, ...], _Outbox, tuple[Lease, ...]]:
        """The one transaction of a tick: from what was read to intents, all or nothing.

        ``revision``: of the store when the known jobs were read. Reading them takes a seventh of a tick.
        """
        outbox = _Outbox([], [], [], [])
        async with self._store.transaction() as uow:
            now = self._clock.now()
            await self._lost_bids.load(uow, now)
            await self._host_memory.load(uow, now)
            await self._regained.note_limits(uow)
            await self.certification.load(uow, now)
            is_unchanged = self._store.revision == revision
            jobs = self._known_jobs if is_unchanged else await uow.jobs.list_open()
            event_logs = [EventLog(job) for job in jobs]
            open_leases = [lease for job in jobs for lease in job.leases] + list(await uow.leases.list_orphans())
            readings = await self._accounts.compare(uow, readings, open_leases)
            held = sum((await uow.ledger.sum_held()).values(), ZERO)
            for event_log in event_logs:
                self.unrecorded_cancels.apply(event_log, now)
                with contain(event_log):
                    self._evolve(event_log, readings, mail, now)
                    if (found := returns.get(event_log.job.id)) is not None:
                        seen = readings, self.calls.busy, self.config.params, now
                        await self.from_store.apply(uow, event_log, found, *seen)
                for checkpoint in event_log.verified:
                    await uow.checkpoints.add(checkpoint)
                    self._checkpoints.note_new(checkpoint)
                await step_back(uow, event_log, now)
            await judge_waiting(uow, event_logs, now, left)
            self._lost_bids.forget_won(lease for event_log in event_logs for lease in event_log.job.leases)
            is_spared = spared_by(tuple(returns.values()))
            orphans = await self._orphans.pass_over(uow, readings, event_logs, self.calls.busy, now, is_spared)
            exposure = await self._accrue(uow, event_logs, orphans, held, now)
            begun, exposure = await self._arrays.advance(
                uow,
                event_logs,
                exposure,
                allowance(exposure, self.config.limits, self.config.params).instances,
                lambda job, exposure: self.market_of(job, offers.get(job.spec.query, ()), now, exposure),
                self.calls.busy,
                now,
            )
            event_logs += begun
            recent = await uow.leases.count_launches(now - timedelta(minutes=10))
            for event_log in event_logs:
                if not event_log.is_broken:
                    exposure = await self._decide(uow, event_log, offers, readings, exposure, recent, outbox, now)
                _end_outlived(event_log, now)
                if not event_log.is_broken:
                    exposure = self._renew_permits(event_log, exposure, now)
            self._exposure = exposure
            await self.certification.watch_use(uow, event_logs, readings, now)
            changed = [replace(each.job, spent=each.original.spent) for each in event_logs if each.changed]
            await uow.jobs.save_all(changed)
            await uow.events.add([record for event_log in event_logs for record in event_log.records])
            await self._conditions.note(
                uow, readings, [event_log.job for event_log in event_logs], orphans, self.clock_error, now
            )
            leases = [*(lease for c in event_logs for lease in c.job.leases), *orphans]
            await self._accounts.keep(uow, readings)
            await hold_reserves(uow, leases, self.config.params, now)
            await self._history.record_prices(uow, {**watched, **offers}, leases, now)
            await self._history.record_readings(uow, (event_log.job for event_log in event_logs))
            await self._host_memory.learn(uow, event_logs, now)
        for event_log in event_logs:
            for checkpoint in event_log.verified:
                self._mailbox.note_kept(checkpoint)
        return tuple(event_log.job for event_log in event_logs), outbox, orphans

    def _evolve(
        self, event_log: EventLog, readings: Mapping[str, Reading], mail: Mapping[str, Mail], now: datetime
    ) -> None:
        for lease in event_log.job.leases:
            reading = readings.get(lease.provider)
            if reading is not None:
                for event in self._market_events(lease, reading, mail.get(lease.id, Mail()), now):
                    event_log.apply(event)
        for lease in event_log.job.leases:
            if lease.id in mail and lease.is_wanted:
                for event in mail_events(event_log.job, event_log.original, lease, mail[lease.id], now):
                    event_log.apply(event)
        take_start_faults(event_log, readings, mail, self._logins, self._avoid, now, self.config.params)
        self.dialling.give_up_unreachable(event_log, self._avoid, now)
        for lease in failed_starts(event_log.job, self.calls.busy):
            self._avoid.add(lease, now, AVOID_AFTER_RELEASE[Reason.STUCK_LOADING])
            event_log.apply(e.ReleaseRequested(lease.id, Reason.STUCK_LOADING, now))

    def _market_events(self, lease: Lease, reading: Reading, letters: Mail, now: datetime) -> Iterator[e.Event]:
        """A machine is not gone before its last checkpoint has been read and taken, which only that of a lease that is
        wanted is. Nothing bills meanwhile."""
        able = self.watches[lease.provider].provider.capabilities
        bound = end_bound(lease, able, self.config.permit_ttl_s, letters.heartbeat, now)
        is_read_first = lease.is_wanted and (letters.checkpoint is not None or self._mailbox.is_reading(lease.id))
        for event in lease_events(lease, reading, self.calls.busy, now, bound):
            if not (isinstance(event, e.LeaseGone) and is_read_first and not event.taken_over):
                yield event

    async def _accrue(
        self, uow: UnitOfWork, event_logs: Sequence[EventLog], orphans: Sequence[Lease], held: Decimal, now: datetime
    ) -> Exposure:
        """Post what is due, update each job's spend to the present, and sum up the account.

        ``held``: for machines that were gone before this tick; the reserve for those that end in it is added.
        """
        params = self.config.params
        leases = [*(lease for c in event_logs for lease in c.job.leases), *orphans]
        accrued = await post_accruals(uow, leases, now)
        upper = {lease.id: accrued[lease.id][1] + unobserved_cost(lease, now, params) for lease in leases}
        for event_log in event_logs:
            job = event_log.job
            more = sum((accrued[lease.id][0] + upper[lease.id] for lease in job.leases), ZERO)
            event_log.job = replace(job, spent=job.spent + more)
        unposted_all = sum(upper.values(), ZERO)
        totals = await uow.ledger.sum_totals(now.date())
        jobs = [each.job for each in event_logs]
        array_purses = await read_array_purses(uow, jobs, upper, params)
        for event_log in event_logs:
            if (of_array := array_purses.get(event_log.job.id)) is not None:
                event_log.job = replace(event_log.job, spent=of_array.spent)
        return Exposure(
            leases=tuple(lease for lease in leases if not lease.is_over),
            spent_day=totals.day + unposted_all,
            spent_month=totals.month + unposted_all,
            launches_job_10min=LaunchCount(),
            launches_hour=sum((await uow.leases.count_launches(now - timedelta(hours=1))).values(), LaunchCount()),
            held=held + sum((commitment(lease, params) for lease in leases if lease.is_over), ZERO),
            purses=await read_purses(uow, jobs, upper, now, params, self.config.settled),
            array_purses=array_purses,
            market_purses=await read_market_purses(
                uow,
                jobs,
                orphans,
                upper,
                self.certification.uncertified,
                lambda market: self.certification.proof_of(market, now),
                self.certification.rules.allowance,
                params,
            ),
        )

    async def _decide(
        self,
        uow: UnitOfWork,
        event_log: EventLog,
        offers: Mapping[OfferQuery, tuple[Offer, ...]],
        readings: Mapping[str, Reading],
        exposure: Exposure,
        recent: Mapping[str | None, LaunchCount],
        outbox: _Outbox,
        now: datetime,
    ) -> Exposure:
        """Decide, guard and write down the intents for one job; returns the exposure that the next job meets."""
        params, limits = self.config.params, self.config.limits
        job = exposure.as_limited(event_log.job, params)
        if job.is_array or (job.waits_for_jobs and job.status.wants_capacity):
            return exposure
        room = allowance(exposure, limits, params, job)
        if room.instances is not None and room.instances <= 0 and self.waits.is_queued(job, now):
            return exposure
        exposure = replace(exposure, launches_job_10min=recent.get(job.id, LaunchCount()))
        market = self._market_now(job, offers.get(job.spec.query, ()), room, exposure, now)
        allowed: tuple[Action, ...] = ()
        with contain(event_log):
            market = replace(market, outlook=self.outlooks.of(job, market, now))
            decision, certified = await self._choose(uow, job, market, now)
            wanted = tuple(a for a in decision.actions if getattr(a, "lease_id", None) not in self.calls.busy)
            allowed, vetoes = guard(job, replace(decision, actions=wanted), market, exposure, limits, now, params)
            for event in action_events(allowed, now):
                if isinstance(event, e.ReleaseRequested) and event.reason in GAVE_UP:
                    note_last_words(event_log, event.lease_id, readings, now)
                event_log.apply(event)
        if event_log.is_broken:
            return exposure
        decision_id = f"{job.id}-{job.decisions + 1}"
        if self.waits.is_news(job, allowed, vetoes, decision.notes, now):
            record = DecisionRecord(
                decision_id,
                job.id,
                now,
                tuple(action_note(a) for a in allowed),
                tuple(veto_note(v) for v in vetoes),
                decision.notes,
            )
            event_log.job = replace(event_log.job, decisions=job.decisions + 1)
            await uow.decisions.add(record)
        if job.certifies and not vetoes:
            await self.certification.keep(uow, event_log.job, certified, now)
        for action in allowed:
            exposure = await self._intend(uow, event_log, job, action, decision_id, market, exposure, outbox, now)
        return exposure

    def _market_now(
        self, job: Job, offers: tuple[Offer, ...], room: Allowance, exposure: Exposure, now: datetime
    ) -> Market:
        """The market as this job meets it, after the jobs before it in this tick."""
        market = self.market_of(job, offers, now, exposure)
        if job.array_id is not None:
            market = replace(market, avoid=market.avoid | self._avoid.machines(job.array_id, now))
        # What an earlier job of this tick is about to rent is no longer there for this one, unless it is one of a pool.
        taken = {
            (lease.provider, lease.machine_id)
            for lease in exposure.leases
            if lease.intended_at == now and not market.providers[lease.provider].capabilities.is_pooled
        }
        return replace(
            market,
            offers=leave_room(market.offers, exposure.leases),
            avoid=market.avoid | taken,
            allowance=room,
            ours=ours_in_pools(exposure.leases, job.id, market.providers),
            made_room=job.id in self._with_room,
        )

    async def _intend(
        self,
        uow: UnitOfWork,
        event_log: EventLog,
        job: Job,
        action: Action,
        decision_id: str,
        market: Market,
        exposure: Exposure,
        outbox: _Outbox,
        now: datetime,
    ) -> Exposure:
        """Write down the intent of one allowed action, and put its call into the outbox. ``job``: as it was decided on,
        which differs from the event log's. Returns the exposure with it.
        """
        before = {lease.id: lease for lease in job.leases}
        match action:
            case Acquire():
                return self._intend_lease(event_log, job, action, decision_id, exposure, outbox, now)
            case ChangeBid(lease_id, bid, _):
                bid_record = BidRecord(decision_id, lease_id, now, bid, "intended", decision_id)
                await uow.bids.save(bid_record)
                lease = _lease_of(event_log.job, lease_id)
                outbox.bids.append((lease, bid_record, before[lease_id].bid))
                return exposure.with_changed(lease)
            case Hold(lease_id, _, _):
                return exposure.with_changed(_lease_of(event_log.job, lease_id))
            case Start(lease_id, _):
                outbox.starts.append(before[lease_id])
            case Stop(lease_id, _):
                outbox.stops.append(before[lease_id])
            case Release(lease_id, reason):
                self._avoid_released(job, before[lease_id], reason, market, now)
            case _:
                pass
        return exposure

    def _intend_lease(
        self,
        event_log: EventLog,
        job: Job,
        action: Acquire,
        decision_id: str,
        exposure: Exposure,
        outbox: _Outbox,
        now: datetime,
    ) -> Exposure:
        as_limited = replace(event_log.job, spec=job.spec)
        config = self.config
        lease = intended_lease(as_limited, action, decision_id, config.install_id, self._ids, now, config.params)
        event_log.apply(e.LeaseIntended(lease, now))
        lease = _lease_of(event_log.job, lease.id)
        outbox.creates.append((spec_for_lease(job, lease), lease))
        return replace(
            exposure,
            leases=(*exposure.leases, lease),
            launches_hour=exposure.launches_hour + LaunchCount(rented=1),
        )

    def _avoid_released(self, job: Job, lease: Lease, reason: Reason, market: Market, now: datetime) -> None:
        span = AVOID_AFTER_RELEASE.get(reason, timedelta(0))
        self._avoid.add(lease, now, span, bids_only=reason is Reason.OUTBID)
        if reason is Reason.BAD_MACHINE and job.array_id is not None:
            self._avoid.add(lease, now, span, of=job.array_id)
        is_beside_ours = (lease.provider, lease.machine_id) in market.ours
        # If other jobs of ours keep running there, it may have lost its bid to one of them.
        if lease.observed.pause_cause in LOST_BIDS and not is_beside_ours:
            self._lost_bids.add(lease, lease.bid, now)

    async def _choose(self, uow: UnitOfWork, job: Job, market: Market, now: datetime) -> tuple[Decision, Turn]:
        """What the policy wants for the job, or its script for a certification."""
        params = self.config.params
        if job.certifies:
            return await self.certification.decide(uow, job, market, self.calls.busy, now, params)
        decision = decide(job, market, now, params)
        if self._recorder is not None:
            self._recorder.record(Scene(job, market, now, params, decision))
        rooms = {lease.provider: market.room_of(job, lease) for lease in job.leases}
        taken = {action.offer.provider for action in decision.actions if isinstance(action, Acquire)}
        rooms |= {name: market.room_on(job, name) for name in taken}
        told = (room_note(name, room) for name, room in sorted(rooms.items()) if room is not None)
        notes = dict.fromkeys((*decision.notes, *told, *self.certification.notes(now)))
        return replace(decision, notes=tuple(notes)), Turn()

    def _renew_permits(self, event_log: EventLog, exposure: Exposure, now: datetime) -> Exposure:
        """Only here, in a tick that observed and is about to commit, does a permit's ``seq`` go up.

        One that was ordered to save and stop gets no more: if we are gone before it has, it stops itself soon. Nor does
        one that proves its market by going at the end of the last, and one that no list has shown yet, beyond its
        first: what the market bills for it is unknown. While the market cannot be read, a machine whose agent reports
        is observed; it counts at its highest rate, within its money.
        Returns the exposure with what is held back for the new permits: the next one is measured by what is left then.
        """
        for lease in event_log.job.leases:
            watch = self.watches.get(lease.provider)
            is_observed = watch is not None and watch.known_at is not None and now - watch.known_at < OBSERVATION_LASTS
            is_heard = lease.agent.seen_at is not None and now - lease.agent.seen_at < HEARTBEAT_LASTS
            if not lease.is_wanted or not (is_observed or is_heard):
                continue
            renewed = lease.permit.renewed_at
            stop_is_ordered = lease.orders.stop_ordered_at is not None and lease.orders.stop_seq == 0
            may_go_on = lease.was_listed and lease.orders.role is not Role.SAVE_AND_STOP and not lease.is_proving
            # One renewed in the future is due as well: the clock was wrong then.
            is_due = renewed is None or (may_go_on and not timedelta(0) <= now - renewed < PERMIT_EVERY)
            if is_due or stop_is_ordered:
                ttl_s = self._permit_ttl_s(event_log.job, lease, exposure, now)
                event_log.apply(e.PermitRenewed(lease.id, self._mailbox.newest_seq(lease) + 1, now, ttl_s))
                given = next(each for each in event_log.job.leases if each.id == lease.id)
                if has_long_permit(lease) or has_long_permit(given):
                    exposure = exposure.with_changed(given)
        return exposure

    def _permit_ttl_s(self, job: Job, lease: Lease, exposure: Exposure, now: datetime) -> int:
        """Where nothing that the machine does ends its bill it may work to the end of its life: it is paid anyway."""
        params = self.config.params
        if self.watches[lease.provider].provider.capabilities.dead_man is DeadMan.NONE:
            return max(self.config.permit_ttl_s, int((lease.not_after - now).total_seconds()))
        over_all = allowance(exposure, self.config.limits, params, job)
        purses, leases = exposure.purses_of(job), exposure.leases
        uncertified = exposure.market_purse(job, lease.provider)
        bounds = [
            PermitBound(left(job, params), job.leases),
            PermitBound(over_all.day, leases),
            PermitBound(over_all.month, leases),
            *(PermitBound(each.left_for(job, leases, params), tuple(each.drawing(leases))) for each in purses),
        ]
        if uncertified is not None and uncertified.draws(lease):
            bounds.append(PermitBound(uncertified.left(leases, params), tuple(uncertified.drawing(leases))))
        may_be_long = self._may_be_long(job, lease, now)
        return give_permit_s(lease, bounds, self.config.permit_ttl_s, now, params, may_be_long=may_be_long)

    def _may_be_long(self, job: Job, lease: Lease, now: datetime) -> bool:
        """A machine works on unheard for longer than a quarter of an hour only if it can end all of its bill itself.

        That must be proved of its market, its agent must have been heard, and there must be work for it.
        """
        able = self.watches[lease.provider].provider.capabilities
        is_at_work = lease.agent.boot > 0 and lease.was_listed and lease.orders.role is Role.RUN
        is_proved = not job.certifies and self.certification.is_proved(lease.provider, now)
        return able.dead_man is DeadMan.DESTROYS and is_at_work and is_proved

    def _destroy_due(self, jobs: Sequence[Job], orphans: Sequence[Lease]) -> None:
        for lease in [*(lease for job in jobs for lease in job.leases), *orphans]:
            if lease.state is LeaseState.DESTROY_REQUESTED and lease.instance_id and lease.provider in self.watches:
                self.calls.destroy(lease)


def _end_outlived(event_log: EventLog, now: datetime) -> None:
    """The absolute lifetime overrides the policy. It also holds for a job that cannot be decided upon."""
    with contain(event_log):
        for lease in event_log.job.leases:
            if lease.is_wanted and lease.orders.role is not Role.LEAVE and now >= lease.not_after:
                event_log.apply(e.ReleaseRequested(lease.id, Reason.EXPIRING, now))
