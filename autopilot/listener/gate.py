"""Passes callers that the listener knows to the daemon, a few calls at a time. The others are slowed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

from autopilot.api.access import Unauthorised, token_needed, token_unknown
from autopilot.api.bearer import hash_of_bearer
from autopilot.api.problem_documents import Handler, problem
from autopilot.listener.known_tokens import KnownTokens

log = structlog.get_logger(__name__)

REFUSED_AFTER_S = 1.0
REFUSALS_AT_ONCE = 32
"""Those that wait to be refused take connections; beyond that they are refused at once."""
CALLS_OF_A_LOGIN = 32
"""At once."""


class TooMany(Exception):
    """To be answered with 429. ``what`` is under way already."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} are under way")


@dataclass(frozen=True, slots=True)
class KnownLogin:
    """Whose a request is."""

    key: str
    """Unique for each login. Of a session its secret, which is never shown."""
    kind: str
    """``token``, ``session`` of the page, or ``user`` of a proxy."""
    headers: Mapping[str, str]
    """That tell the daemon so."""


LOGIN = web.RequestKey("login", KnownLogin)
Identify = Callable[[web.Request], KnownLogin]
"""Raises ``Unauthorised``."""


class Gate:
    def __init__(self, identify: Identify, refused_after_s: float = REFUSED_AFTER_S) -> None:
        self._identify = identify
        self._refused_after_s = refused_after_s
        self._waiting = 0
        self._calls: Counter[str] = Counter()

    def guard(self, handler: Handler) -> Handler:
        """``handler`` for requests of known logins alone, which it finds as ``LOGIN``. It is asked nothing for the
        others."""

        async def check(request: web.Request) -> web.StreamResponse:
            try:
                login = request[LOGIN] = self._identify(request)
                with self._count(login):
                    answer = await handler(request)
            except Unauthorised as refusal:
                return await self._refuse(request, refusal)
            except TooMany as problem:
                return too_many(str(problem), "wait for one of them to end")
            return answer

        return check

    @contextlib.contextmanager
    def _count(self, login: KnownLogin) -> Iterator[None]:
        if self._calls[login.key] >= CALLS_OF_A_LOGIN:
            raise TooMany(f"{CALLS_OF_A_LOGIN} calls of this {login.kind}")
        self._calls[login.key] += 1
        try:
            yield
        finally:
            self._calls[login.key] -= 1
            if not self._calls[login.key]:
                del self._calls[login.key]

    async def _refuse(self, request: web.Request, refusal: Unauthorised) -> web.Response:
        log.warning("api.login_failed", method=request.method, peer=request.remote)
        if self._waiting >= REFUSALS_AT_ONCE:
            return too_many("too many logins fail at once", "try again with a login that is valid")
        self._waiting += 1
        try:
            await asyncio.sleep(self._refused_after_s)
        finally:
            self._waiting -= 1
        return problem(401, "unauthorised", refusal.message, refusal.hint)


def by_token(known: KnownTokens) -> Identify:
    """A token that there is."""

    def identify(request: web.Request) -> KnownLogin:
        sha256 = hash_of_bearer(request.headers)
        if sha256 is None:
            raise token_needed()
        if not known.has(sha256):
            raise token_unknown()
        return KnownLogin(sha256, "token", {"Authorization": request.headers["Authorization"]})

    return identify


def too_many(detail: str, hint: str) -> web.Response:
    answer = problem(429, "too_many_requests", detail, hint)
    answer.headers["Retry-After"] = "1"
    return answer
