"""The routes of certifications."""

from __future__ import annotations

from aiohttp import web

from autopilot.answers.models.account import AcceptBody, CertifyBody
from autopilot.api.callers import caller_of
from autopilot.api.certify import CertifyService
from autopilot.api.requests import read_body
from autopilot.domain.errors import UserError
from autopilot.domain.money import usd

MOST_GPUS = 8


class CertifyRoutes:
    def __init__(self, certify: CertifyService) -> None:
        self._certify = certify

    async def report(self, request: web.Request) -> web.Response:
        return web.json_response(await self._certify.report(request.match_info["market"]))

    async def begin(self, request: web.Request) -> web.Response:
        body = await read_body(request, CertifyBody)
        if len(body.gpus) > MOST_GPUS:
            raise UserError(f"gpus must be a list of at most {MOST_GPUS} names")
        market, budget = request.match_info["market"], usd(body.budget)
        answer = await self._certify.begin(market, budget, body.gpus, owner=caller_of(request).owner)
        return web.json_response(answer, status=201)

    async def accept(self, request: web.Request) -> web.Response:
        claim = (await read_body(request, AcceptBody)).claim
        return web.json_response(await self._certify.accept(request.match_info["market"], claim))
