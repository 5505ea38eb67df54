"""Schedules: job files that are submitted again and again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from autopilot.domain.schedule import Schedule


class Schedules(Protocol):
    """None is ever removed: jobs name theirs."""

    async def save(self, schedule: Schedule) -> None:
        """Insert or update."""
        ...

    async def find(self, reference: str, *, owner: int | None = None) -> Schedule | None:
        """By id, or of that name: one that has not ended before those that have, the newest first.

        ``owner``: among that one's alone.
        """
        ...

    async def list_live(self) -> tuple[Schedule, ...]:
        """Those that have not ended, oldest first."""
        ...

    async def list_newest(self, *, limit: int, owner: int | None = None) -> tuple[Schedule, ...]:
        """All schedules, or that owner's: newest first, ended ones included."""
        ...

    async def keep_table(self, schedule_id: str, text: str) -> None:
        """The table that came with a schedule of arrays, once: a row for each task of each firing."""
        ...

    async def find_table(self, schedule_id: str) -> str | None:
        """None: none came with it."""
        ...

    async def list_by_ids(self, ids: Collection[str]) -> tuple[Schedule, ...]:
        """In no order; what is no schedule's id is left out."""
        ...
