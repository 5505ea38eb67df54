"""From HTTP to an endpoint and back: authorisation, faults, rate limits, wrong slashes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web

from autopilot_lab.sandbox.faults import LOST, UNHEARD, Faults, InjectedFault
from autopilot_lab.sandbox.vastai.calls import Call, Site
from autopilot_lab.sandbox.vastai.pacing import Pacing
from autopilot_lab.sandbox.vastai.replies import (
    OK,
    Failure,
    HttpReply,
    Json,
    invalid_body,
    login_required,
    not_authorized,
    too_frequent,
    unknown_key,
)
from autopilot_lab.sandbox.vastai.routes import ROUTES, Route
from autopilot_lab.sandbox.wire import Host, bearer_key, hang, reset

_REDIRECT_PREFIX = "/r"
"""A ``redirect`` fault sends callers here; the same endpoints answer."""


_PATTERNS: dict[str, list[tuple[Route, re.Pattern[str]]]] = {}
for _route in ROUTES:
    _pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", _route.path))
    _PATTERNS.setdefault(_route.method, []).append((_route, _pattern))


@dataclass(frozen=True)
class Asked:
    """A request, whichever way it came. ``path``: the variables in it; ``location``: with the query, for redirects."""

    key: str | None
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    location: str


@dataclass(frozen=True)
class Dropped:
    """The connection is dropped, after so many real seconds of silence."""

    hang_s: float = 0.0


class VastApi:
    def __init__(
        self, site: Site, host: Host, faults: Faults, *, api_keys: tuple[str, ...], enforce_rate_limits: bool
    ) -> None:
        self._site = site
        self._host = host
        self._faults = faults
        self.api_keys = frozenset(api_keys)
        """Of the account; its owner may revoke them."""
        self._pacing = Pacing() if enforce_rate_limits else None
        self._stopping = asyncio.Event()
        self.requests: Counter[str] = Counter()
        """Calls by endpoint family, refused ones included."""

    def add_routes(self, app: web.Application) -> None:
        for prefix in ("", _REDIRECT_PREFIX):
            for route in ROUTES:
                app.router.add_route(route.method, prefix + route.path, self._handler(route))
        app.middlewares.append(self._mend_slashes)

    def stop(self) -> None:
        """Let go of the calls that hang on purpose."""
        self._stopping.set()

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            asked = Asked(
                bearer_key(request), request.match_info, request.query, await request.read(), str(request.rel_url)
            )
            reply = await self._answer(route, asked)
            if not isinstance(reply, Dropped):
                return _response(reply)
            if reply.hang_s:
                await hang(request, reply.hang_s, self._stopping)
            return await reset(request)

        return handle

    async def ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, key: str | None
    ) -> HttpReply | Dropped:
        """What a request would get over HTTP, without a connection. Raises ``KeyError`` for an unknown endpoint."""
        for route, pattern in _PATTERNS[method]:
            found = pattern.fullmatch(path)
            if found:
                return await self._answer(route, Asked(key, found.groupdict(), query, body, path))
        raise KeyError(f"{method} {path}")

    async def _answer(self, route: Route, asked: Asked) -> HttpReply | Dropped:
        self.requests[route.family] += 1
        now = self._host.synchronise()
        fault = self._faults.draw(route.family)
        if fault is not None and fault.kind in LOST:
            return self._lose(asked, fault)
        if fault is not None and fault.kind == "success_false" and route.family != "create":
            return HttpReply({"success": False, "msg": "The request was not carried out."})
        reply = self._carry_out(route, asked, now, fault)
        await self._host.settle()
        if fault is not None and fault.kind in UNHEARD and reply.status == 200:
            return _leave_unheard(fault)
        return reply

    def _carry_out(self, route: Route, asked: Asked, now: datetime, fault: InjectedFault | None) -> HttpReply:
        try:
            scope = None if route.public else self._authorise(route, asked.key)
            if self._pacing is not None and not route.public:
                refused = self._pacing.refuse(route.family, asked.key or "", now)
                if refused is not None:
                    return refused
            return route.endpoint(Call(self._site, asked.path, asked.query, _json(asked.body), scope, fault))
        except Failure as failed:
            return failed.reply

    def _authorise(self, route: Route, key: str | None) -> int | None:
        """The instance that the key is limited to, if it is. Raises ``Failure``."""
        if key is None:
            raise login_required()
        if key in self.api_keys:
            return None
        for instance in self._site.market.live():
            if instance.api_key == key:
                if not route.instance_key_allowed or "own-key-destroys" in self._site.market.broken:
                    raise not_authorized()
                return instance.id
        raise unknown_key(route.unknown_key_status)

    def _lose(self, asked: Asked, fault: InjectedFault) -> HttpReply | Dropped:
        if fault.kind == "reset":
            return Dropped()
        if fault.kind == "no_effect_success":
            return OK
        if fault.kind == "http_429":
            return too_frequent(4.5, detail=fault.detail, retry_after=fault.retry_after)
        if fault.kind == "quota":
            return self._site.quota.refusal(self._site.market.now)
        if fault.kind == "redirect":
            location = f"{_REDIRECT_PREFIX}{asked.location}"
            return HttpReply({"msg": "Moved Permanently"}, 301, headers={"Location": location})
        status = int(fault.kind.removeprefix("http_"))
        return HttpReply(status=status, text=f"<html><body>{status}</body></html>", content_type="text/html")

    @web.middleware
    async def _mend_slashes(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """A path with a slash too many or too few is redirected, which loses the body of a PUT or POST."""
        if not isinstance(request.match_info.http_exception, web.HTTPNotFound):
            return await handler(request)
        path = request.rel_url.raw_path
        mended = path.rstrip("/") if path.endswith("/") else path + "/"
        known = await request.app.router.resolve(request.clone(rel_url=mended))
        if known.http_exception is not None:
            return await handler(request)
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        return _response(HttpReply({"msg": "Moved Permanently"}, 301, headers={"Location": mended + query}))


def _leave_unheard(fault: InjectedFault) -> HttpReply | Dropped:
    if fault.kind == "effect_then_timeout":
        return Dropped(fault.hang_s)
    if fault.kind == "effect_then_reset":
        return Dropped()
    unreadable = {
        "effect_then_500": HttpReply({"success": False, "error": "server_error"}, status=500),
        "html": HttpReply(text="<html><body>Please wait…</body></html>", content_type="text/html"),
        "empty": HttpReply(text=""),
        "bad_json": HttpReply(text='{"success": true, "new_con', content_type="application/json"),
    }
    return unreadable[fault.kind]


def _response(reply: HttpReply) -> web.Response:
    if reply.text is not None:
        return web.Response(
            text=reply.text, status=reply.status, content_type=reply.content_type, headers=reply.headers
        )
    return web.json_response(reply.body, status=reply.status, headers=reply.headers)


def _json(raw: bytes) -> Json:
    """The JSON object that was sent, ``{}`` for none. Raises ``Failure`` (400)."""
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise invalid_body() from None
    if not isinstance(body, dict):
        raise invalid_body()
    return body
