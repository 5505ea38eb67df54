"""What pictures are drawn of: the lives of jobs and machines, decisions, and spend by market."""

from __future__ import annotations

from aiohttp import web

from autopilot.api.callers import caller_of, job_ref
from autopilot.api.finding import find_job
from autopilot.api.job_life import read_drawn, read_newest_decisions, read_spans
from autopilot.api.jobs import JobService
from autopilot.api.ledger_view import DECISIONS_SHOWN
from autopilot.api.spend import spend_by_market
from autopilot.domain.errors import UserError
from autopilot.engine.engine import Engine
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

MOST_JOBS = 100
"""Whose spans one call may ask for."""


class LifeRoutes:
    def __init__(self, jobs: JobService, engine: Engine, store: Store, clock: Clock) -> None:
        self._jobs = jobs
        self._engine = engine
        self._store = store
        self._clock = clock

    async def life(self, request: web.Request) -> web.Response:
        shown = await self._jobs.show(job_ref(request))
        async with self._store.snapshot() as uow:
            drawn = await read_drawn(uow, await find_job(uow, shown["job"]["id"]), DECISIONS_SHOWN)
        return web.json_response(shown | drawn)

    async def spans(self, request: web.Request) -> web.Response:
        """Others' jobs are left out, as jobs that there are not."""
        ids = list(dict.fromkeys(filter(None, request.query.get("jobs", "").split(","))))
        if len(ids) > MOST_JOBS:
            raise UserError(f"that is more than {MOST_JOBS} jobs", hint="ask for the others by themselves")
        caller = caller_of(request)
        async with self._store.snapshot() as uow:
            titles = await uow.jobs.list_titles(ids)
            seen = [id_ for id_, title in titles.items() if caller.sees_all or title.owner == caller.owner]
            return web.json_response({"jobs": await read_spans(uow, seen)})

    async def decisions(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        owner = None if caller.sees_all else caller.owner
        async with self._store.snapshot() as uow:
            before, kind = request.query.get("before", ""), request.query.get("kind", "")
            return web.json_response(await read_newest_decisions(uow, owner, before, kind))

    async def spend_by_market(self, request: web.Request) -> web.Response:
        params = self._engine.config.params
        return web.json_response(
            {"markets": await spend_by_market(self._store, request.query, self._clock.now(), params)}
        )
