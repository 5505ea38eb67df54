"""What a ledger says by itself, without the daemon that writes it: the API's answers, all of one snapshot.

Credits of markets and what a job waits for are the daemon's own knowledge. They are not here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.api import render
from autopilot.api.books import instance, reconciliation
from autopilot.api.budget import budget_of
from autopilot.api.finding import find_job
from autopilot.api.job_life import read_drawn, read_life, read_newest_decisions, read_spans
from autopilot.api.models.money import PricesQuery
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
    def sees_all(self) -> bool:
        return True

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
        """As ``GET /v1/jobs/{ref}/life`` answers. Raises ``UserError``."""
        job = await find_job(self.uow, reference)
        outstanding = await read_outstanding(self.uow, self.now, self.params)
        return {
            "job": self._job(job, outstanding),
            **await read_life(self.uow, job, outstanding, self.now),
            **await read_drawn(self.uow, job, DECISIONS_SHOWN),
        }

    async def read_machines(self, job_ids: Sequence[str]) -> dict[str, render.Json]:
        """By job: what a strip of its last hours is drawn of."""
        return await read_spans(self.uow, job_ids)

    async def list_markets(self) -> list[render.Json]:
        """What a market answers, and when, is the daemon's knowledge."""
        return []

    async def list_offers(self, gpu: str) -> list[render.Json]:
        """The same."""
        return []

    async def read_log(self, reference: str) -> render.Json:
        """Output lies beside the ledger."""
        return {"chunks": [], "earlier": False, "finished": True}

    async def budget(self) -> render.Json:
        return await budget_of(self.store, self.now, self.params, self.limits, {})

    async def spend(self, query: Mapping[str, str]) -> render.Json:
        return await spend(self.store, query, self.now, self.params)

    async def spend_by_market(self, query: Mapping[str, str]) -> dict[str, render.Json]:
        """The answers of ``spend``, each of one market alone."""
        return await spend_by_market(self.store, query, self.now, self.params)

    async def instance(self, reference: str) -> render.Json:
        """Raises ``JobNotFound``."""
        return await instance(self.store, reference, self.now, self.params)

    async def list_decisions(self, before: str, kind: str) -> render.Json:
        """Of all jobs, as ``GET /v1/decisions`` answers."""
        return await read_newest_decisions(self.uow, None, before, kind)

    async def reconcile(self, month: str) -> render.Json:
        return await reconciliation(self.store, {"month": month}, self.now, self.params)

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> render.Json:
        query = PricesQuery(gpu=gpu, since=since.isoformat(), until=until.isoformat(), steps=steps)
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
