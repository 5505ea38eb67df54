"""The pages over HTTP, on 127.0.0.1, to whoever has the link. Every answer forbids scripts and foreign content."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autopilot import __version__
from autopilot.api.jobs import JobNotFound
from autopilot.api.ledger_view import LedgerReader, LedgerView
from autopilot.domain.errors import UserError
from autopilot.ids import new_secret
from autopilot.listener.hosts import check_hosts
from autopilot.ports.store import StoreUnavailable
from autopilot.web import job_page, money_page, now_page, words
from autopilot.web.machines import STATES, THIN

log = structlog.get_logger(__name__)

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
AT_ONCE = 4
"""Pages that are made at the same time; others wait."""
MADE_WITHIN_S = 30.0
COOKIE = "autopilot-page"
_HERE = Path(__file__).parent
_STATIC = {"style.css": "text/css", "icon.svg": "image/svg+xml"}
_SHORT_STATES = {
    "spot": "working, spot",
    "demand": "working, on demand",
    "setup": "setting up",
    "paused": "paused, disk only",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pages:
    """Templates filled with what a page shows. Values are text: markup in them is escaped."""

    def __init__(self) -> None:
        self._static = {name: (_HERE / "static" / name).read_bytes() for name in _STATIC}
        version = hashlib.sha256(self._static["style.css"]).hexdigest()[:12]
        loader = FileSystemLoader(_HERE / "templates")
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.globals.update(
            words=words,
            states=STATES,
            short_states=_SHORT_STATES,
            thin=THIN,
            periods=list(job_page.PERIODS),
            style_version=version,
            version=__version__,
        )

    def render(self, template: str, path: str, **values: object) -> str:
        return self._templates.get_template(template).render(path=path, **values)

    def static(self, name: str) -> bytes:
        return self._static[name]


class Server:
    """The application. ``key``: what the link holds; whoever has opened it is let in by a cookie."""

    def __init__(self, reader: LedgerReader, key: str) -> None:
        self._reader = reader
        self._key = key
        self._cookie = new_secret()
        self._pages = Pages()
        self._making = asyncio.Semaphore(AT_ONCE)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_add_headers, check_hosts((), HOST), self._answer_errors, self._check])
        app.add_routes(
            [
                web.get("/enter/{key}", self._enter),
                web.get("/static/{name}", self._send_static),
                web.get("/", self._now),
                web.get("/jobs/{ref}", self._job),
                web.get("/money", self._money),
            ]
        )
        return app

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.match_info["key"].encode(), self._key.encode()):
            return self._refuse(request)
        # A cookie set by an answer that leads on would not be sent along from there in every browser.
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(self._name_cookie(request), self._cookie, httponly=True, samesite="Strict", path="/")
        return answer

    @staticmethod
    def _name_cookie(request: web.Request) -> str:
        """With the port: a browser sends cookies of one port of this machine to all."""
        return f"{COOKIE}-{request.url.port}"

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.cookies.get(self._name_cookie(request), "")
        is_known = hmac.compare_digest(shown.encode(), self._cookie.encode())
        if is_known or request.path.startswith(("/enter/", "/static/")):
            return await handler(request)
        return self._refuse(request)

    def _refuse(self, request: web.Request) -> web.Response:
        hint = "open the link that autopilot web has printed"
        return self._problem(request, 401, "Who are you?", "This page is for whoever started it.", hint)

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except JobNotFound as error:
            return self._problem(request, 404, "No such job", error.message, error.hint)
        except UserError as error:
            return self._problem(request, 400, "That cannot be shown", error.message, error.hint)
        except StoreUnavailable as error:
            hint = "nothing is known of your jobs now, which is not the same as none; autopilot db check says more"
            return self._problem(request, 503, "The ledger cannot be read", str(error), hint)
        except TimeoutError:
            message = f"The page was not made within {MADE_WITHIN_S:.0f} s."
            return self._problem(request, 503, "That took too long", message, "a shorter period takes less time")
        except web.HTTPNotFound:
            return self._problem(request, 404, "No such page", f"There is nothing at {request.path}.", "")
        except web.HTTPException:
            raise
        except Exception:
            log.exception("page.failed", path=request.path)
            hint = "the log of autopilot web has the cause; please report it"
            return self._problem(request, 500, "A defect", "This page could not be made.", hint)

    def _problem(self, request: web.Request, status: int, title: str, message: str, hint: str) -> web.Response:
        body = self._pages.render("problem.html", request.path, title=title, message=message, hint=hint)
        return web.Response(text=body, status=status, content_type="text/html")

    async def _send_static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _STATIC:
            raise web.HTTPNotFound
        lasts = "private, max-age=31536000, immutable" if request.query_string else "private, max-age=3600"
        answer = web.Response(body=self._pages.static(name), content_type=_STATIC[name])
        answer.headers["Cache-Control"] = lasts
        answer.enable_compression()
        return answer

    async def _now(self, request: web.Request) -> web.StreamResponse:
        return await self._make(request, "now.html", now_page.build)

    async def _job(self, request: web.Request) -> web.StreamResponse:
        return await self._make(
            request, "job.html", lambda view: job_page.build(view, request.match_info["ref"], request.query)
        )

    async def _money(self, request: web.Request) -> web.StreamResponse:
        return await self._make(request, "money.html", lambda view: money_page.build(view, request.query))

    async def _make(
        self, request: web.Request, template: str, build: Callable[[LedgerView], Awaitable[Any]]
    ) -> web.StreamResponse:
        async with asyncio.timeout(MADE_WITHIN_S), self._making, self._reader.view() as view:
            page = await build(view)
        answer = web.Response(text=self._pages.render(template, request.path, page=page), content_type="text/html")
        answer.enable_compression()
        return answer


@web.middleware
async def _add_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        answer = await handler(request)
    except web.HTTPException as refused:
        refused.headers.update(HEADERS)
        raise
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


@asynccontextmanager
async def serving(reader: LedgerReader, port: int) -> AsyncIterator[str]:
    """The link that lets its holder in. ``port``: 0 takes a free one. Raises ``UserError`` where it is taken."""
    key = new_secret()
    runner = web.AppRunner(Server(reader, key).app(), access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as problem:
            reason = problem.strerror or str(problem)
            hint = "leave --port out, which takes a free one"
            raise UserError(f"port {port} of {HOST} cannot be taken: {reason}", hint=hint) from None
        yield f"http://{HOST}:{runner.addresses[0][1]}/enter/{key}"
    finally:
        await runner.cleanup()
