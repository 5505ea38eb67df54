"""Pages of a constant ledger, at a stopped clock: only a change of their code changes how they are drawn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from aiohttp import web

from autopilot.answers.codec import to_json
from autopilot.books.ledger_view import LedgerReader, LedgerView
from autopilot.domain.token import Scope
from autopilot.web import actions
from autopilot.web.server import Server
from autopilot.web.site import PageSite
from autopilot.web.source import Visitor
from tests.unit.web.web_ledger import JOB, a_reader

KEY = "the-key-of-the-link"
OWNER = Visitor("", Scope.ADMIN, sees_all=True, is_live=True, key="all")


@contextmanager
def serving_fixed_pages() -> Iterator[str]:
    """The link that lets a browser in."""
    loop, address = asyncio.new_event_loop(), []
    stop, is_open = asyncio.Event(), threading.Event()

    async def serve() -> None:
        runner = web.AppRunner(_app(await a_reader()), handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}/enter/{KEY}")
        is_open.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert is_open.wait(60)
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def _app(reader: LedgerReader) -> web.Application:
    """With the pages on which something is done, as a user with all rights sees them."""
    app, site = Server(reader, KEY).app(), PageSite()

    async def new(request: web.Request) -> web.StreamResponse:
        return site.answer(request, "new.html", OWNER, page=actions.build_draft(OWNER))

    async def confirm(request: web.Request) -> web.StreamResponse:
        async with reader.view() as view:
            where = {"ref": JOB, "verb": request.match_info["verb"]}
            page = await actions.build_confirmation(_Asked(view), OWNER, where)  # type: ignore[arg-type]  # what a page asks, and no more
        return site.answer(request, "confirm.html", OWNER, page=page)

    app.router.add_get("/new", new)
    app.router.add_get("/do/{verb}", confirm)
    return app


class _Asked:
    """A daemon that answers from the ledger."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view

    @property
    def now(self) -> datetime:
        return self._view.now

    async def get(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = to_json(await self._view.read_job(path.rpartition("/")[2]))
        return body
