"""The market's history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from autopilot.domain.prices import PriceObservation


class Prices(Protocol):
    async def add(self, observations: Iterable[PriceObservation]) -> None:
        """One per machine, size and instant; a second is left out."""
        ...

    async def list_by_gpu(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        """Of one GPU by its name, from ``since`` up to but without ``until``, oldest first."""
        ...

    async def thin(self, before: datetime, *, hours: int) -> int:
        """Put the observations of each whole hour that ended by ``before`` into one per machine, at most so many hours
        at once, oldest first; returns how many hours were done.
        """
        ...

    async def forget(self, before: datetime) -> int:
        """Remove the observations before then; returns how many."""
        ...
