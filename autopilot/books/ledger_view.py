"""What a ledger says by itself, without the daemon that writes it: the API's answers, all of one snapshot.

Credits of markets and what a job waits for are the daemon's own knowledge. They are not here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot import render
from autopilot.answers.codec import from_json
from autopilot.answers.hosts import Host
from autopilot.answers.instances import Instances
from autopilot.answers.jobs import Logs
from autopilot.answers.models.money import PricesQuery
from autopilot.answers.money import MonthOfMoney
from autopilot.answers.pages import Decisions, DrawnLife, MachinesOfJob, Now
from autopilot.answers.plans import RankedOffer
from autopilot.answers.prices import Prices
from autopilot.books.finding import find_job
from autopilot.books.hosts import list_hosts
from autopilot.books.job_life import read_drawn, read_life, read_newest_decisions, read_spans
from autopilot.books.page_views import read_money, read_now
from autopilot.books.prices import prices
from autopilot.books.reconciliation import instance
from autopilot.domain.job import Job
from autopilot.domain.params import Params
from autopilot.engine.outstanding import Moment, read_moment
from autopilot.policy.guard import Limits
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

MACHINES_OF = 100
"""Jobs, the newest, whose machines are drawn where no job is named."""
DECISIONS_SHOWN = 200


@dataclass(frozen=True)
class LedgerView:
    uow: UnitOfWork
    now: datetime
    newest_at: datetime | None
    """When the newest event of all happened."""
    params: Params
    limits: Limits

    @property
    def sees_all(self) -> bool:
        return True

    async def read_now(self) -> Now:
        """As ``GET /v1/page/now`` answers. What a market answers, and when, is the daemon's knowledge."""
        body = await read_now(self.uow, await self._read_moment(), self._job, self.limits, {})
        return from_json(Now, body | {"markets": []})

    async def read_money(self, by: str, month: str) -> MonthOfMoney:
        """As ``GET /v1/page/money`` answers. Raises ``UserError``."""
        return await read_money(self.uow, await self._read_moment(), self.limits, by, month)

    async def read_job(self, reference: str) -> DrawnLife:
        """As ``GET /v1/jobs/{ref}/life`` answers. Raises ``UserError``."""
        job = await find_job(self.uow, reference)
        moment = await self._read_moment(job)
        life = await read_life(self.uow, job, moment) | await read_drawn(self.uow, job, DECISIONS_SHOWN)
        return from_json(DrawnLife, {"job": self._job(job, moment)} | life)

    async def read_machines(self, job_ids: Sequence[str]) -> dict[str, MachinesOfJob]:
        """By job: what a strip of its last hours is drawn of."""
        return await self._read_spans(job_ids)

    async def read_newest_machines(self) -> dict[str, MachinesOfJob]:
        """The same of the newest jobs."""
        return await self._read_spans(await self.uow.jobs.list_newest_ids(limit=MACHINES_OF))

    async def _read_spans(self, job_ids: Sequence[str]) -> dict[str, MachinesOfJob]:
        return from_json(dict[str, MachinesOfJob], await read_spans(self.uow, job_ids))

    async def list_offers(self, gpu: str) -> list[RankedOffer]:
        """What a market answers is the daemon's knowledge."""
        return []

    async def list_hosts(self) -> list[Host]:
        return (await list_hosts(self.uow, self.now)).hosts

    async def read_log(self, reference: str) -> Logs:
        """Output lies beside the ledger."""
        return Logs(chunks=[], earlier=False, finished=True)

    async def instance(self, reference: str) -> Instances:
        """Raises ``JobNotFound``."""
        return from_json(Instances, await instance(self.uow, reference, self.now, self.params))

    async def list_decisions(self, before: str, kind: str) -> Decisions:
        """Decisions of all jobs, as ``GET /v1/decisions`` answers."""
        return from_json(Decisions, await read_newest_decisions(self.uow, None, before, kind))

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> Prices:
        query = PricesQuery(gpu=gpu, since=since.isoformat(), until=until.isoformat(), steps=steps)
        return from_json(Prices, await prices(self.uow, query, self.now, [gpu]))

    async def _read_moment(self, *others: Job) -> Moment:
        return await read_moment(self.uow, self.now, self.params, others)

    def _job(self, job: Job, moment: Moment) -> render.Json:
        counts = moment.tasks.get(job.id, render.NO_TASKS)
        money = moment.money_of(job)
        return render.job(job, self.now, self.params, money, titles=moment.titles, counts=counts)


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
