"""``/v1/hosts``: what is remembered of machines, which the user may block or forgive."""

from __future__ import annotations

from dataclasses import replace

import structlog
from aiohttp import web

from autopilot.answers.codec import to_json
from autopilot.answers.hosts import HostAnswer
from autopilot.answers.models.hosts import HostsQuery
from autopilot.api.requests import read_query
from autopilot.books.hosts import describe_host, list_hosts
from autopilot.domain.errors import UserError
from autopilot.domain.hosts import HostRecord
from autopilot.engine.engine import Engine
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)

MOST_OF_ID = 200
"""Characters. A market's ids are far shorter."""


class HostRoutes:
    def __init__(self, store: Store, clock: Clock, engine: Engine) -> None:
        self._store = store
        self._clock = clock
        self._engine = engine

    async def list_all(self, request: web.Request) -> web.Response:
        provider, now = read_query(request, HostsQuery).provider, self._clock.now()
        async with self._store.snapshot() as uow:
            found = await list_hosts(uow, now, provider=provider)
        return web.json_response(to_json(found))

    async def block(self, request: web.Request) -> web.Response:
        """Also one that was never rented. A machine that runs there goes on."""
        market, machine_id = request.match_info["market"], request.match_info["machine"]
        if market not in self._engine.watches:
            known = ", ".join(sorted(self._engine.watches))
            raise UserError(f"no market is named {market!r}", hint=f"the settings name {known}")
        if not machine_id.strip() or len(machine_id) > MOST_OF_ID:
            raise UserError(f"a machine's id has 1 to {MOST_OF_ID} characters")
        now = self._clock.now()
        async with self._store.transaction() as uow:
            record = await uow.hosts.find(market, machine_id) or HostRecord(market, machine_id, "", "", now)
            record = replace(record, blocked_at=record.blocked_at or now)
            await uow.hosts.save([record])
        log.info("host.blocked", provider=market, machine=machine_id)
        return web.json_response(to_json(HostAnswer(host=describe_host(record, record.at(now)))))

    async def forgive(self, request: web.Request) -> web.Response:
        """Its faults are forgotten, and its block."""
        market, machine_id = request.match_info["market"], request.match_info["machine"]
        async with self._store.transaction() as uow:
            record = await uow.hosts.find(market, machine_id)
            if record is None:
                hint = "autopilot hosts lists those that are remembered"
                raise UserError(f"nothing is remembered of {machine_id!r} on {market}", hint=hint)
            record = record.forgive()
            await uow.hosts.save([record])
        log.info("host.forgiven", provider=market, machine=machine_id)
        return web.json_response(to_json(HostAnswer(host=describe_host(record, record))))
