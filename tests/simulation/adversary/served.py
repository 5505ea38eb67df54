"""The simulated daemon with its API: the application as it ships, over that daemon's engine and ledger."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from autopilot.api.access import check_spec
from autopilot.api.app import Api
from autopilot.api.certify import CertifyService
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService
from autopilot.api.metrics import Metrics
from autopilot.api.page_sessions import PageSessions
from autopilot.api.tokens import TokenService
from autopilot.api.uploads import Uploads
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.token import Token
from autopilot.engine.engine import Engine
from tests.simulation.adversary.wire import Line
from tests.simulation.product.blobs import SimulatedUnpacker
from tests.simulation.product.daemon import Daemon

SECRETS = {"hf": "sentinel-secret-hf", "aws": "sentinel-secret-aws"}
"""By name: what the daemon's users have stored."""

_SILENT = logging.getLogger(f"{__name__}.refused")
"""Of requests that are no HTTP."""
_SILENT.disabled = True

_IN_CALL: contextvars.ContextVar[bool] = contextvars.ContextVar("in a call of the API", default=False)


def is_in_call() -> bool:
    """Work that the API sends to a thread is done at once; the tick's long computations never are in time."""
    return _IN_CALL.get()


class ServedDaemon(Daemon):
    def __init__(self, *arguments: Any, scratch: Path, lines: list[Line], **more: Any) -> None:
        """``scratch``: a directory of its own. ``lines``: the newest daemon's is the last one there."""
        self._scratch = scratch
        self._lines = lines
        self._wake = asyncio.Event()
        super().__init__(*arguments, **more)

    def _secret(self, name: str) -> str:
        if name not in SECRETS:
            raise UserError(f"there is no secret named {name!r}")
        return SECRETS[name]

    def _parse(self, text: str, source: str, now: datetime, token: Token | None) -> JobSpec:
        spec = parse_job(text, source=source, now=now)
        check_spec(spec, token)
        for _, name in spec.secrets:
            self._secret(name)
        if spec.registry is not None:
            raise UserError("there is no registry secret here")
        return spec

    async def _open(self, engine: Engine) -> None:
        store, blobs, clock, ids, wake = self.ledger, self._blobs, self.clock, self._ids, self._wake.set
        code = CodeService(store, blobs, SimulatedUnpacker(), clock, ids)
        jobs = JobService(engine, store, blobs, clock, ids, self._parse, change_spec, wake, code)
        sessions = PageSessions(self._scratch / "page-logins.json", clock, _ignore)
        api = Api(
            jobs,
            engine,
            store,
            clock,
            CertifyService(engine, store, clock, ids, wake, jobs.plans),
            TokenService(store, clock, wake),
            Uploads(self._scratch / "sent", self._scratch / "received"),
            Metrics(engine, store, clock),
            sessions,
            _no_page,
        )
        app = api.app(is_listeners=True)
        app.middlewares.insert(0, _mark_call)
        runner = web.AppRunner(app, access_log=None, logger=_SILENT)
        await runner.setup()
        assert runner.server is not None, "it has just been set up"
        self._lines.append(Line(self.ground.loop, self.life.process, runner.server))

    async def _rest(self, for_s: float) -> None:
        """As the service does: any change wakes it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), for_s)
        self._wake.clear()


@web.middleware
async def _mark_call(request: web.Request, handler: Any) -> web.StreamResponse:
    _IN_CALL.set(True)
    answer: web.StreamResponse = await handler(request)
    return answer


async def _ignore(_: object) -> None:
    pass


async def _no_page() -> str:
    return "http://127.0.0.1:1/"
