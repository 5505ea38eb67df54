"""The picture of a job, for what is sent to people."""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Awaitable, Callable

from autopilot.books.finding import JobNotFound
from autopilot.books.ledger_view import LedgerView
from autopilot.domain.params import Params
from autopilot.policy.guard import Limits
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

DRAWN_BY = "autopilot.web.picture:draw_from"
"""Named by text: the page is above this room."""


class JobPictures:
    def __init__(self, store: Store, clock: Clock, params: Params, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._params = params
        self._limits = limits

    async def draw(self, job_id: str) -> str | None:
        """As SVG; None for a job that there is not. Raises ``StoreUnavailable``."""
        draw: Callable[[LedgerView, str], Awaitable[str]] = await asyncio.to_thread(pkgutil.resolve_name, DRAWN_BY)
        async with self._store.snapshot() as uow:
            view = LedgerView(uow, self._clock.now(), None, self._params, self._limits)
            try:
                return await draw(view, job_id)
            except JobNotFound:
                return None
