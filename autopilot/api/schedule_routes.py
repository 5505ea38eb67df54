"""The routes of schedules."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from autopilot.answers.models.schedules import ScheduleBody, SchedulesQuery
from autopilot.api.callers import caller_of
from autopilot.api.code import SentCode
from autopilot.api.jobs import JobService
from autopilot.api.once import OnceOnly
from autopilot.api.requests import read_body, read_query
from autopilot.api.submissions import Sent
from autopilot.domain.schedule import ScheduleStatus


class ScheduleRoutes:
    def __init__(self, jobs: JobService, once: OnceOnly) -> None:
        self._jobs = jobs
        self._once = once

    async def create(self, request: web.Request) -> web.Response:
        body, caller = await read_body(request, ScheduleBody), caller_of(request)
        sent = Sent(body.toml, body.source, SentCode.of(body.code) if body.code else None, body.table)
        create = partial(self._jobs.schedules.create, sent, body, caller)
        if body.dry_run:
            return web.json_response(await create())
        return await self._once.answer(request, caller.owner, 201, lambda once: create(once=once))

    async def list_all(self, request: web.Request) -> web.Response:
        caller, asked = caller_of(request), read_query(request, SchedulesQuery)
        return web.json_response(
            await self._jobs.schedules.overview(None if caller.sees_all else caller.owner, all=asked.all)
        )

    async def pause(self, request: web.Request) -> web.Response:
        return await self._move(request, ScheduleStatus.PAUSED)

    async def resume(self, request: web.Request) -> web.Response:
        return await self._move(request, ScheduleStatus.ACTIVE)

    async def end(self, request: web.Request) -> web.Response:
        return await self._move(request, ScheduleStatus.ENDED)

    async def _move(self, request: web.Request, status: ScheduleStatus) -> web.Response:
        moved = await self._jobs.schedules.move(request.match_info["schedule"], caller_of(request), status)
        return web.json_response(moved)
