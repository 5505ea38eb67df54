"""Requests that act once: one whose answer was lost may be sent again with its key, and is answered as before."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import web

from autopilot.api.requests import has_hung_up
from autopilot.domain.errors import UserError
from autopilot.engine.history import ANSWERS_KEPT_FOR
from autopilot.ports.clock import Clock
from autopilot.ports.store import KeptAnswer, Store, UnitOfWork

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST_KEY = 255


class KeyReused(UserError):
    """The same key came with another request."""


class CallerGone(Exception):
    """The caller hung up before anything was committed: nothing is."""


@dataclass(frozen=True, slots=True)
class Once:
    """One request on its way. What it does is committed together with its answer, or not at all."""

    owner: int
    key: str
    """Empty: it may act again."""
    sha256: str
    is_gone: Callable[[], bool]
    clock: Clock

    async def keep(self, uow: UnitOfWork, status: int, body: dict[str, Any]) -> None:
        """Last of all in the transaction that acts. Raises ``CallerGone``, ``ConstraintViolated``."""
        if self.is_gone():
            raise CallerGone
        if self.key:
            answer = KeptAnswer(self.owner, self.key, self.sha256, self.clock.now(), status, json.dumps(body))
            await uow.answers.add(answer)


Act = Callable[[Once], Awaitable[dict[str, Any]]]


class OnceOnly:
    """Answers of the last 24 hours, by owner and key. Two requests with one key come one after the other."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
        """For as long as somebody holds or awaits them."""

    async def answer(self, request: web.Request, owner: int, status: int, act: Act) -> web.Response:
        """What ``act`` answers, or the answer that the key has had. ``act`` calls ``keep`` in its transaction.

        Raises ``KeyReused``, ``UserError``, ``CallerGone``, and what ``act`` raises.
        """
        key = _read_key(request)
        asked = b"\0".join((request.method.encode(), request.path_qs.encode(), await request.read()))
        once = Once(owner, key, hashlib.sha256(asked).hexdigest(), lambda: has_hung_up(request), self._clock)
        if not key:
            return web.json_response(await act(once), status=status)
        async with self._turns.setdefault((owner, key), asyncio.Lock()):
            known = await self._find(once)
            if known is None:
                return web.json_response(await act(once), status=status)
        if known.request_sha256 != once.sha256:
            hint = "a key belongs to one request; take a new one for another"
            raise KeyReused(f"the {HEADER} {key!r} was sent with another request", hint=hint)
        headers = {REPLAYED: "true"}
        return web.Response(text=known.body, status=known.status, content_type="application/json", headers=headers)

    async def _find(self, once: Once) -> KeptAnswer | None:
        async with self._store.snapshot() as uow:
            known = await uow.answers.find(once.owner, once.key)
        return known if known is not None and self._clock.now() - known.at < ANSWERS_KEPT_FOR else None


def _read_key(request: web.Request) -> str:
    key = request.headers.get(HEADER, "")
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise UserError(f"{HEADER} has up to {LONGEST_KEY} printable ASCII characters")
    return key
