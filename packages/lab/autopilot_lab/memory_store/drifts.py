"""How the markets' answers differ from what their adapters were written for, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from autopilot.domain.drift import Drift
from autopilot.ports.store.drifts import MOST_DRIFTS
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryDrifts(MemoryRepository):
    __slots__ = ()

    async def save(self, drifts: Iterable[Drift]) -> None:
        with self._access.write() as tables:
            for drift in drifts:
                tables.drifts.put(drift.key, drift)
            for surplus in sorted(tables.drifts.values(), key=_order)[MOST_DRIFTS:]:
                tables.drifts.remove(surplus.key)

    async def list(self, *, provider: str | None = None, money: bool = False) -> tuple[Drift, ...]:
        kept = sorted(self._access.read().drifts.values(), key=_order)
        return tuple(drift for drift in kept if provider in (None, drift.provider) and (drift.is_money or not money))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            old = [drift for drift in tables.drifts.values() if drift.last_seen_at < before]
            for drift in old:
                tables.drifts.remove(drift.key)
            return len(old)


def _order(drift: Drift) -> tuple[Any, ...]:
    return not drift.is_read, -drift.last_seen_at.timestamp(), drift.key
