"""A store whose events fill the outbox, in the events' own transaction: no event is kept without its notices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import structlog

from autopilot.domain.job import Job
from autopilot.notices.kinds import BY_DEFAULT, OF_EVENT, Facts, NoticeKind
from autopilot.ports.ids import Ids
from autopilot.ports.store import EventRecord, PendingNotice, Store, UnitOfWork
from autopilot.ports.store.history import Events

log = structlog.get_logger(__name__)

LONGEST_TITLE = 120
LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one sink gets. ``is_default``: also what concerns no job, and jobs that name no sink."""

    kinds: frozenset[str] = BY_DEFAULT
    is_default: bool = True


class Announcer:
    """Makes notices of events, for the sinks that want them."""

    def __init__(
        self,
        sinks: Mapping[str, Subscription],
        ids: Ids,
        scrub: Callable[[str], str],
        prefix: str = "",
    ) -> None:
        """``scrub``: takes known secrets out of a text. ``prefix``: put before every title."""
        self._sinks = sinks
        self._ids = ids
        self._scrub = scrub
        self._prefix = prefix

    async def announce(self, uow: UnitOfWork, records: Iterable[EventRecord]) -> bool:
        """Put the notices of these events into the outbox; returns whether there were any."""
        if not self._sinks:
            return False
        notices = [notice for record in records for notice in await self._notices_of(uow, record)]
        if notices:
            await uow.notices.save(notices)
        return bool(notices)

    async def _notices_of(self, uow: UnitOfWork, record: EventRecord) -> list[PendingNotice]:
        kinds = OF_EVENT.get(record.name, ())
        if not kinds:
            return []
        job = await uow.jobs.find(record.job_id) if record.job_id else None
        lease = await uow.leases.get(record.lease_id) if record.lease_id else None
        facts = Facts(record, job, lease)
        kind = next((each for each in kinds if each.applies(facts)), None)
        if kind is None:
            return []
        title, text = self._words(kind, facts)
        named = await self._named_by(uow, record, job)
        return [
            PendingNotice(notice_id, sink, kind.name, record.at, record.job_id, record.lease_id, title, text, record.at)
            for notice_id in [self._ids.new()]
            for sink in self._sinks_for(kind, named)
        ]

    def _words(self, kind: NoticeKind, facts: Facts) -> tuple[str, str]:
        try:
            title, text = kind.says(facts)
        except Exception:
            # A sentence that cannot be made must not hold up what it is about.
            log.exception("notice.wording_failed", kind=kind.name)
            title, text = kind.name.replace("_", " "), f"The event is {facts.event.name}. Next: look into the log."
        line = " ".join((self._prefix + title).split())
        return self._scrub(line)[:LONGEST_TITLE], self._scrub(text)[:LONGEST_TEXT]

    async def _named_by(self, uow: UnitOfWork, record: EventRecord, job: Job | None) -> tuple[str, ...] | None:
        """The sinks that the job's file names, or the schedule's; None: it names none."""
        if job is not None:
            return job.spec.notify
        schedule_id = dict(record.fields).get("schedule")
        schedule = await uow.schedules.find(schedule_id) if isinstance(schedule_id, str) else None
        return None if schedule is None else schedule.spec.notify

    def _sinks_for(self, kind: NoticeKind, named: tuple[str, ...] | None) -> list[str]:
        return [
            name
            for name, sink in self._sinks.items()
            if kind.name in sink.kinds and (sink.is_default if named is None else name in named)
        ]


class _AnnouncedEvents:
    def __init__(self, uow: UnitOfWork, announcer: Announcer) -> None:
        self._uow = uow
        self._announcer = announcer
        self.announced = False

    async def add(self, records: Iterable[EventRecord]) -> None:
        added = tuple(records)
        await self._uow.events.add(added)
        self.announced |= await self._announcer.announce(self._uow, added)

    async def list_after(
        self, seq: int = 0, *, limit: int = 1000, since: datetime | None = None
    ) -> tuple[EventRecord, ...]:
        return await self._uow.events.list_after(seq, limit=limit, since=since)

    async def find_newest(self) -> EventRecord | None:
        return await self._uow.events.find_newest()

    async def list_by_job(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        return await self._uow.events.list_by_job(job_id, limit=limit)

    async def list_named(self, name: str, job_ids: Collection[str], *, limit: int) -> tuple[EventRecord, ...]:
        return await self._uow.events.list_named(name, job_ids, limit=limit)

    async def list_by_lease(self, lease_id: str) -> tuple[EventRecord, ...]:
        return await self._uow.events.list_by_lease(lease_id)

    async def forget(self, before: datetime) -> int:
        return await self._uow.events.forget(before)


class _AnnouncingUnitOfWork:
    def __init__(self, uow: UnitOfWork, events: Events) -> None:
        self.jobs = uow.jobs
        self.checkpoints = uow.checkpoints
        self.certificates = uow.certificates
        self.code_copies = uow.code_copies
        self.leases = uow.leases
        self.ledger = uow.ledger
        self.invoices = uow.invoices
        self.reports = uow.reports
        self.bids = uow.bids
        self.decisions = uow.decisions
        self.events = events
        self.prices = uow.prices
        self.machine_readings = uow.machine_readings
        self.drifts = uow.drifts
        self.forecasts = uow.forecasts
        self.hosts = uow.hosts
        self.notes = uow.notes
        self.answers = uow.answers
        self.notices = uow.notices
        self.schedules = uow.schedules
        self.tokens = uow.tokens


class AnnouncingStore:
    """``store``, with a notice for each event that people are to be informed of."""

    def __init__(self, store: Store, announcer: Announcer, wake: Callable[[], None]) -> None:
        """``wake``: called once new notices are committed."""
        self._store = store
        self._announcer = announcer
        self._wake = wake

    @property
    def revision(self) -> int:
        return self._store.revision

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitOfWork]:
        async with self._store.transaction() as uow:
            events = _AnnouncedEvents(uow, self._announcer)
            yield _AnnouncingUnitOfWork(uow, events)
        if events.announced:
            self._wake()

    def snapshot(self) -> AbstractAsyncContextManager[UnitOfWork]:
        return self._store.snapshot()

    async def close(self) -> None:
        await self._store.close()
