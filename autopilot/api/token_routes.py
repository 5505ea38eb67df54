"""The routes of tokens, and of plans that they ask a person about."""

from __future__ import annotations

from aiohttp import web

from autopilot.answers.models.account import RevokeBody, TokenBody
from autopilot.api.callers import caller_of
from autopilot.api.jobs import JobService
from autopilot.api.requests import read_body, read_body_if_any
from autopilot.api.tokens import TokenService


class TokenRoutes:
    def __init__(self, tokens: TokenService, jobs: JobService) -> None:
        self._tokens = tokens
        self._jobs = jobs

    async def create(self, request: web.Request) -> web.Response:
        made = await self._tokens.create(await read_body(request, TokenBody), caller_of(request))
        return web.json_response(made, status=201, headers={"Cache-Control": "no-store"})

    async def list_all(self, request: web.Request) -> web.Response:
        return web.json_response(await self._tokens.list_all())

    async def list_plans(self, _: web.Request) -> web.Response:
        return web.json_response({"plans": self._jobs.plans.list_all()})

    async def confirm(self, request: web.Request) -> web.Response:
        return web.json_response({"plan": self._jobs.plans.confirm(request.match_info["plan"], caller_of(request))})

    async def revoke(self, request: web.Request) -> web.Response:
        parks_all = (await read_body_if_any(request, RevokeBody)).park
        name, by = request.match_info["name"], caller_of(request).owner
        return web.json_response(await self._tokens.revoke(name, parks_all=parks_all, by=by))
