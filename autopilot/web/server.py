"""The read-only pages of a ledger over HTTP, on 127.0.0.1, for anyone with the link."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from autopilot.books.ledger_view import LedgerReader
from autopilot.domain.errors import UserError
from autopilot.ids import new_secret
from autopilot.listener.hosts import check_hosts
from autopilot.listener.pages import ADDRESSES, HOST, OF_SESSION
from autopilot.ports.store import StoreUnavailable
from autopilot.web import zone
from autopilot.web.session_path import keep_secret, make_path, read_secret
from autopilot.web.site import AT_ONCE, BUILDERS, HEADERS, MADE_WITHIN_S, Handler, PageSite, add_headers
from autopilot.web.source import READER

OPEN_TO_ALL = ("/enter/", "/static/")


class Server:
    """Return the application. ``key``: the key in the link; opening it sets a cookie that signs the browser in."""

    def __init__(self, reader: LedgerReader, key: str) -> None:
        self._reader = reader
        self._key = key
        self._secret = new_secret()
        self._site = PageSite()
        self._making = asyncio.Semaphore(AT_ONCE)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_add_headers, check_hosts((), HOST), self._answer_errors, self._check])
        for call, name in ADDRESSES.items():
            method, _, path = call.partition(" ")
            if name in BUILDERS and method == "GET":
                app.router.add_get(OF_SESSION + path, self._page(name))
        app.router.add_post(f"{OF_SESSION}/zone", self._choose_zone)
        app.router.add_get("/enter/{key}", self._enter)
        app.router.add_get("/static/{name}", self._send_static)
        return app

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.match_info["key"].encode(), self._key.encode()):
            return self._refuse(request)
        answer = web.Response(status=303, headers={"Location": make_path(self._secret)})
        keep_secret(answer, request, self._secret)
        return answer

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        zone.choose_of(request)
        is_known = hmac.compare_digest(read_secret(request).encode(), self._secret.encode())
        if is_known or request.path.startswith(OPEN_TO_ALL):
            return await handler(request)
        return self._refuse(request)

    def _refuse(self, request: web.Request) -> web.Response:
        hint = "open the link that autopilot web printed"
        return self._site.tell(request, 401, "Sign in", "Only the user who started this page can open it.", hint)

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except StoreUnavailable as error:
            hint = "this does not mean that you have no jobs; run autopilot db check"
            return self._site.tell(request, 503, "The ledger cannot be read", str(error), hint)
        except web.HTTPNotFound as error:
            return self._site.tell_error(request, error)
        except web.HTTPException:
            raise
        except Exception as error:
            return self._site.tell_error(request, error)

    async def _choose_zone(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        return zone.keep(request, {name: value for name, value in form.items() if isinstance(value, str)})

    async def _send_static(self, request: web.Request) -> web.StreamResponse:
        return self._site.send_static(request)

    def _page(self, name: str) -> Handler:
        async def make(request: web.Request) -> web.StreamResponse:
            async with asyncio.timeout(MADE_WITHIN_S), self._making, self._reader.view() as view:
                page = await BUILDERS[name](view, request)
            return self._site.answer(request, f"{name}.html", READER, page=page)

        return make


@web.middleware
async def _add_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        answer = await handler(request)
    except web.HTTPException as refused:
        refused.headers.update(HEADERS)
        raise
    add_headers(answer)
    return answer


@asynccontextmanager
async def serving(reader: LedgerReader, port: int) -> AsyncIterator[str]:
    """The link that lets its holder in. ``port``: 0 takes a free one. Raises ``UserError`` if it is taken."""
    key = new_secret()
    runner = web.AppRunner(Server(reader, key).app(), access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as problem:
            reason = problem.strerror or str(problem)
            hint = "omit --port to use a free one"
            raise UserError(f"port {port} of {HOST} is not available: {reason}", hint=hint) from None
        yield f"http://{HOST}:{runner.addresses[0][1]}/enter/{key}"
    finally:
        await runner.cleanup()
