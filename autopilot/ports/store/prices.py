"""The market's history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from autopilot.domain.prices import PriceObservation, PriceSum


class Prices(Protocol):
    async def add(self, observations: Iterable[PriceObservation]) -> None:
        """One per machine, size and instant; a second is left out."""
        ...

    async def list_by_gpu(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        """Prices of one GPU by its name, from ``since`` up to but without ``until``, oldest first."""
        ...

    async def sum_by_step(
        self, gpus: Collection[str], since: datetime, until: datetime, *, steps: int, provider: str | None = None
    ) -> tuple[PriceSum, ...]:
        """Of GPUs by any of these names, from ``since`` up to but without ``until``: what was observed of each market
        and size in each of so many steps (``domain.prices.step_width``), in that order.
        """
        ...

    async def count_machines(
        self, gpus: Collection[str], since: datetime, until: datetime, *, provider: str | None = None
    ) -> Mapping[str, int]:
        """By market: of how many machines and sizes something was observed then."""
        ...

    async def thin(self, before: datetime, *, hours: int) -> int:
        """Put the observations of each whole hour that ended by ``before`` into one per machine, at most so many hours
        at once, oldest first; returns how many hours were done.
        """
        ...

    async def forget(self, before: datetime) -> int:
        """Remove the observations before then; returns how many."""
        ...
