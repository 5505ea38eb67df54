"""The sample daemon, running on a unix socket that commands find."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.patience import PATIENCE_S
from tests.unit.cli.sample_daemon import Daemon, sample


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    daemon = Daemon(
        tmp_path / "autopilot.sock",
        {
            "GET /v1/status": (200, sample("status")),
            "GET /v1/jobs": (200, sample("jobs")),
            "GET /v1/jobs/bert-qa": (200, sample("job")),
            "GET /v1/jobs/bert-qa/why": (200, sample("why")),
            "GET /v1/jobs/bert-qa/logs": (200, sample("logs")["pages"]),
            "POST /v1/jobs": (201, sample("submitted")),
            "POST /v1/jobs/bert-qa/cancel": (200, {"job": sample("job")["job"] | {"status": "cancelling"}}),
            "POST /v1/jobs/bert-qa/stop": (200, {"job": sample("job")["job"] | {"status": "stopping"}}),
            "PATCH /v1/jobs/bert-qa": (200, {"job": sample("job")["job"], "plan": None}),
            "POST /v1/jobs/bert-qa/resume": (200, {"job": sample("job")["job"] | {"status": "pending"}}),
            "POST /v1/offers": (200, sample("offers")),
            "GET /v1/spend": (200, sample("spend")),
            "GET /v1/budget": (200, sample("budget")),
            "GET /v1/reconcile": (200, sample("reconcile")),
            "GET /v1/prices": (200, sample("prices")),
            "GET /v1/drift": (200, sample("drift")),
            "GET /v1/hosts": (200, sample("hosts")),
            "GET /v1/instances/47848147": (200, sample("instance")),
        },
    )
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(daemon.socket))
    monkeypatch.setenv("COLUMNS", "80")
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", daemon.answer)
    runner = web.AppRunner(app, access_log=None)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.UnixSite(runner, str(daemon.socket)).start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield daemon
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
