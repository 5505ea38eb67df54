"""What pages show and pictures are drawn of: the lives of jobs and machines, decisions, where the money went."""

from __future__ import annotations

from aiohttp import web

from autopilot.answers.codec import to_json
from autopilot.api.access import ApiCaller
from autopilot.api.callers import caller_of, job_ref
from autopilot.api.jobs import JobService
from autopilot.api.markets import render_markets
from autopilot.books.budget import credits_of
from autopilot.books.finding import find_job
from autopilot.books.job_life import read_drawn, read_newest_decisions, read_spans
from autopilot.books.ledger_view import DECISIONS_SHOWN, MACHINES_OF
from autopilot.books.page_views import read_money, read_now
from autopilot.domain.errors import UserError
from autopilot.domain.time import utc_day
from autopilot.engine.engine import Engine
from autopilot.engine.outstanding import read_moment
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store


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
        """The lives of the named jobs, or of the newest ones. Others' jobs are left out, as jobs that there are not."""
        ids = list(dict.fromkeys(filter(None, request.query.get("jobs", "").split(","))))
        if len(ids) > MACHINES_OF:
            raise UserError(f"that is more than {MACHINES_OF} jobs", hint="request the others separately")
        caller = caller_of(request)
        async with self._store.snapshot() as uow:
            if ids:
                titles = await uow.jobs.list_titles(ids)
                seen = [id_ for id_, title in titles.items() if caller.sees_all or title.owner == caller.owner]
            else:
                seen = list(await uow.jobs.list_newest_ids(limit=MACHINES_OF, owner=_owner_of(caller)))
            return web.json_response({"jobs": await read_spans(uow, seen)})

    async def decisions(self, request: web.Request) -> web.Response:
        async with self._store.snapshot() as uow:
            before, kind = request.query.get("before", ""), request.query.get("kind", "")
            return web.json_response(await read_newest_decisions(uow, _owner_of(caller_of(request)), before, kind))

    async def now(self, request: web.Request) -> web.Response:
        """With ``markets`` as ``GET /v1/status`` has them."""
        caller, now, config = caller_of(request), self._clock.now(), self._engine.config
        async with self._store.snapshot() as uow:
            moment = await read_moment(uow, now, config.params)
            credits = credits_of(self._engine)
            body = await read_now(uow, moment, self._jobs.render, config.limits, credits, _owner_of(caller))
        markets = render_markets(self._engine, now, sees_all=caller.sees_all)
        return web.json_response(body | {"markets": markets})

    async def money(self, request: web.Request) -> web.Response:
        now, config = self._clock.now(), self._engine.config
        by, month = request.query.get("by", "job"), request.query.get("month", f"{utc_day(now):%Y-%m}")
        async with self._store.snapshot() as uow:
            moment = await read_moment(uow, now, config.params)
            return web.json_response(to_json(await read_money(uow, moment, config.limits, by, month)))


def _owner_of(caller: ApiCaller) -> int | None:
    """Whose jobs alone they see; None: all."""
    return None if caller.sees_all else caller.owner
