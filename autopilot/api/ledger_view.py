"""What a ledger says by itself, without the daemon that writes it: the API's answers, all of one snapshot.

Credits of markets and what a job waits for are the daemon's own knowledge. They are not here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.api import render
from autopilot.api.books import list_spans, reconciliation
from autopilot.api.budget import budget_of
from autopilot.api.job_life import read_decisions, read_life
from autopilot.api.jobs import find_job
from autopilot.api.outstanding import Outstanding, money, read_outstanding, select_of_job
from autopilot.api.prices import prices
from autopilot.api.spend import spend, spend_by_market
from autopilot.domain.job import Job
from autopilot.domain.params import Params
from autopilot.policy.guard import Limits
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

JOBS_SHOWN = 500
DECISIONS_SHOWN = 200
LEASES_DRAWN = 200
"""Of one job, the newest."""


class _OneView:
    """A store whose every snapshot is the same one."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[UnitOfWork]:
        yield self._uow

    def transaction(self) -> AbstractAsyncContextManager[UnitOfWork]:
        raise NotImplementedError("a view is read only")

    async def close(self) -> None:
        """Whoever opened the snapshot closes it."""


@dataclass(frozen=True)
class LedgerView:
    """Amounts are decimal strings, instants ISO 8601, as everywhere in the API."""

    uow: UnitOfWork
    now: datetime
    newest_at: datetime | None
    """When the newest event of all happened."""
    params: Params
    limits: Limits

    @property
    def store(self) -> Store:
        return _OneView(self.uow)

    async def list_jobs(self) -> list[render.Json]:
        """The newest, finished ones included, and all that are open."""
        outstanding = await read_outstanding(self.uow, self.now, self.params)
        newest = {job.id: job for job in await self.uow.jobs.list_newest(limit=JOBS_SHOWN)}
        jobs = newest | {job.id: job for job in await self.uow.jobs.list_open()}
        return [self._job(job, outstanding) for job in jobs.values()]

    async def read_job(self, reference: str) -> render.Json:
        """As ``GET /v1/jobs/{ref}`` answers; with its decisions, newest first, the spans of its newest machines by
        lease, and ``postings``: each instant at which something was posted for it, with the sum. Raises ``UserError``.
        """
        job = await find_job(self.uow, reference)
        outstanding = await read_outstanding(self.uow, self.now, self.params)
        drawn = (await self.uow.leases.list_by_job(job.id))[-LEASES_DRAWN:]
        return {
            "job": self._job(job, outstanding) | {"gpus": [choice.name for choice in job.spec.gpus]},
            **await read_life(self.uow, job, outstanding, self.now),
            "decisions": await read_decisions(self.uow, job.id, limit=DECISIONS_SHOWN),
            "spans": {lease.id: list_spans(lease) for lease in drawn},
            "postings": [
                {"at": render.plain(entry.posted_at), "amount": render.plain(entry.amount)}
                for lease in drawn
                for entry in await self.uow.ledger.list_entries(lease.id)
                if entry.is_spend
            ],
        }

    async def read_machines(self, job_id: str) -> render.Json:
        """The spans of a job's machines and its events: what a strip of its last hours is drawn of."""
        drawn = (await self.uow.leases.list_by_job(job_id))[-LEASES_DRAWN:]
        return {
            "leases": [render.lease(lease) for lease in drawn],
            "spans": {lease.id: list_spans(lease) for lease in drawn},
            "events": [render.event(record) for record in await self.uow.events.list_by_job(job_id)],
        }

    async def budget(self) -> render.Json:
        return await budget_of(self.store, self.now, self.params, self.limits, {})

    async def spend(self, query: Mapping[str, str]) -> render.Json:
        return await spend(self.store, query, self.now, self.params)

    async def spend_by_market(self, query: Mapping[str, str]) -> dict[str, render.Json]:
        """The answers of ``spend``, each of one market alone."""
        return await spend_by_market(self.store, query, self.now, self.params)

    async def reconcile(self, month: str) -> render.Json:
        return await reconciliation(self.store, {"month": month}, self.now, self.params)

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> render.Json:
        query = {"gpu": gpu, "since": since.isoformat(), "until": until.isoformat(), "steps": str(steps)}
        return await prices(self.store, query, self.now, [gpu])

    def _job(self, job: Job, outstanding: Mapping[str, Outstanding]) -> render.Json:
        return render.job(job, self.now, self.params, money(job.spent, select_of_job(job.id, outstanding)))


class LedgerReader:
    """Opens views of one ledger."""

    def __init__(self, store: Store, clock: Clock, limits: Limits, params: Params | None = None) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._params = params or Params()

    @asynccontextmanager
    async def view(self) -> AsyncIterator[LedgerView]:
        """Raises ``StoreUnavailable``."""
        async with self._store.snapshot() as uow:
            newest = await uow.events.find_newest()
            newest_at = None if newest is None else newest.at
            # A ledger of the sandbox may be ahead of this clock.
            now = max(self._clock.now(), newest_at or self._clock.now() - timedelta(days=1))
            yield LedgerView(uow, now, newest_at, self._params, self._limits)
