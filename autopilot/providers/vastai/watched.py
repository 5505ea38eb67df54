"""Floors of GPUs that are watched while no job asks for them: bid searches alone, of few rows, spread over the day.

All of them together get a bounded share of the day's rows, and nothing of the last ones: jobs never lack any for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from autopilot.domain.offer import OfferQuery
from autopilot.ports.clock import Clock
from autopilot.providers.vastai.budget import RowBudget
from autopilot.providers.vastai.wire import OfferRow

ROWS = 8
"""How many rows a search returns, the cheapest."""
FRESH_S = 300.0
"""Market seconds for which a floor is shown, and the least between two searches for one GPU."""
FORGET_AFTER_S = 3600.0
"""A query that was not asked for in this time takes no share any more."""

Ask = Callable[[OfferQuery], Awaitable[tuple[OfferRow, ...]]]
"""Runs one search of ``ROWS`` rows. Raises ``MarketUnknown``."""


@dataclass(slots=True)
class _Floors:
    rows: tuple[OfferRow, ...]
    seen_at: float | None
    asked_at: float


class WatchedFloors:
    def __init__(self, budget: RowBudget, clock: Clock, ask: Ask) -> None:
        self._budget = budget
        self._clock = clock
        self._ask = ask
        self._floors: dict[OfferQuery, _Floors] = {}
        self._next_at = 0.0

    async def rows(self, query: OfferQuery) -> tuple[OfferRow, ...]:
        """What the newest search has shown, if that is not long ago; the next one is made where its turn has come.

        Raises ``MarketUnknown``.
        """
        now_s = self._clock.monotonic()
        self._floors = {key: each for key, each in self._floors.items() if now_s - each.asked_at < FORGET_AFTER_S}
        held = self._floors.setdefault(query, _Floors((), None, now_s))
        held.asked_at = now_s
        apart_s = max(FRESH_S, self._budget.watched_apart_s(ROWS * len(self._floors)))
        is_due = held.seen_at is None or now_s - held.seen_at >= apart_s
        if is_due and now_s >= self._next_at and self._budget.allows_watching(ROWS, self._clock.now()):
            # Counted before it is made: one that fails is not tried again at once.
            self._next_at = now_s + apart_s / len(self._floors)
            held.rows = await self._ask(query)
            held.seen_at = self._clock.monotonic()
        is_fresh = held.seen_at is not None and self._clock.monotonic() - held.seen_at < FRESH_S
        return held.rows if is_fresh else ()
