"""How the markets' answers differ from what their adapters were written for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from autopilot.domain.drift import Drift

MOST_DRIFTS = 500
"""Kept at once, over all markets."""


class Drifts(Protocol):
    async def save(self, drifts: Iterable[Drift]) -> None:
        """Insert or, by key, update. Beyond ``MOST_DRIFTS`` those go that the adapters do not read, and of them those
        that were not seen for longest.
        """
        ...

    async def list(self, *, provider: str | None = None, money: bool = False) -> tuple[Drift, ...]:
        """Those of fields that are read first, then the newest seen. ``money``: of the fields of money alone."""
        ...

    async def forget(self, before: datetime) -> int:
        """Remove those that were last seen before then; returns how many."""
        ...
