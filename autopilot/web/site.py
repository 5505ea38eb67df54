"""What every page has in common: its templates, its files, its headers, and the words for what went wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autopilot import __version__
from autopilot.books.finding import JobNotFound
from autopilot.domain.errors import UserError
from autopilot.web import (
    actions,
    decisions_page,
    hosts_page,
    job_page,
    machine_page,
    market_page,
    money_page,
    now_page,
    words,
    zone,
)
from autopilot.web.machines import STATES, THIN
from autopilot.web.session_path import lead_back, read_page_path
from autopilot.web.source import READER, PageSource, Visitor
from autopilot.words import failures
from autopilot.words.options import EXPECTED_COST

log = structlog.get_logger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Without any, browsers would say nothing of the origin of a form, and it would be taken for another site's.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
AT_ONCE = 4
"""Pages that are made at the same time; others wait."""
MADE_WITHIN_S = 30.0
VISITOR = web.RequestKey("visitor", Visitor)
"""Who a request is of, once that is known."""
_HERE = Path(__file__).parent
_STATIC = {
    "style.css": ("static", "text/css"),
    "icon.svg": ("static", "image/svg+xml"),
    "app.js": ("static", "text/javascript"),
    "market.js": ("static", "text/javascript"),
    "htmx.min.js": ("vendor", "text/javascript"),
    "hx-sse.min.js": ("vendor", "text/javascript"),
    "uPlot.iife.min.js": ("vendor", "text/javascript"),
    "uPlot.min.css": ("vendor", "text/css"),
}
_SHORT_STATES = {
    "spot": "working, spot",
    "demand": "working, on demand",
    "setup": "setting up",
    "paused": "paused, disk only",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Build = Callable[[PageSource, web.Request], Awaitable[Any]]

BUILDERS: Mapping[str, Build] = {
    "now": lambda source, request: now_page.build(source, request.query),
    "job": lambda source, request: job_page.build(source, request.match_info["ref"], request.query),
    "machine": lambda source, request: machine_page.build(source, request.match_info["ref"]),
    "market": lambda source, request: market_page.build(source, request.query),
    "money": lambda source, request: money_page.build(source, request.query),
    "decisions": lambda source, request: decisions_page.build(source, request.query),
    "hosts": lambda source, _: hosts_page.build(source),
}
"""By the name of a template: what it shows."""


class PageSite:
    """Templates filled with what a page shows. Values are text: markup in them is escaped."""

    def __init__(self) -> None:
        self._static = {name: (_HERE / place / name).read_bytes() for name, (place, _) in _STATIC.items()}
        versions = {name: hashlib.sha256(body).hexdigest()[:12] for name, body in self._static.items()}
        loader = FileSystemLoader(_HERE / "templates")
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.globals.update(
            words=words,
            zone=zone,
            states=STATES,
            short_states=_SHORT_STATES,
            thin=THIN,
            periods=list(job_page.PERIODS),
            verbs=actions.list_verbs,
            lines_shown=failures.LINES_SHOWN,
            expected_cost=EXPECTED_COST,
            done_words=actions.DONE,
            static=lambda name: f"/static/{name}?{versions[name]}",
            version=__version__,
        )

    def render(self, template: str, path: str, visitor: Visitor = READER, **values: object) -> str:
        root = lead_back(path)
        return self._templates.get_template(template).render(path=path, root=root, visitor=visitor, **values)

    def answer(self, request: web.Request, template: str, visitor: Visitor, **values: object) -> web.Response:
        path, query = read_page_path(request), request.rel_url.raw_query_string
        body = self.render(template, path, visitor, back=f"{path}?{query}" if query else path, **values)
        answer = web.Response(text=body, content_type="text/html")
        answer.enable_compression()
        return answer

    def send_static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _STATIC:
            raise web.HTTPNotFound
        lasts = "private, max-age=31536000, immutable" if request.query_string else "private, max-age=3600"
        answer = web.Response(body=self._static[name], content_type=_STATIC[name][1])
        answer.headers["Cache-Control"] = lasts
        answer.enable_compression()
        return answer

    def tell(self, request: web.Request, status: int, title: str, message: str, hint: str = "") -> web.Response:
        """A page that says what went wrong, with the navigation of the request's visitor, if it has one."""
        visitor = request.get(VISITOR, READER)
        values = {"title": title, "message": message, "hint": hint}
        body = self.render("problem.html", read_page_path(request), visitor, **values)
        return web.Response(text=body, status=status, content_type="text/html")

    def tell_error(self, request: web.Request, error: Exception) -> web.Response:
        """Tells an error that every kind of source may raise; any other one is a defect."""
        match error:
            case JobNotFound():
                return self.tell(request, 404, "Not found", error.message, error.hint)
            case UserError():
                return self.tell(request, 400, "Cannot show this", error.message, error.hint)
            case TimeoutError():
                message = f"The page took longer than {MADE_WITHIN_S:.0f} s."
                return self.tell(request, 503, "Timed out", message, "try a shorter period")
            case web.HTTPNotFound():
                message = f"There is no page {read_page_path(request)}."
                return self.tell(request, 404, "Not found", message, "the links above lead to all pages")
        log.error("page.failed", path=read_page_path(request), exc_info=error)
        hint = "the log has the cause; please report it"
        return self.tell(request, 500, "Internal error", "This page could not be rendered.", hint)


def add_headers(answer: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
