"""What happened: bids, decisions, events, and the program's own notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Protocol

from autopilot.ports.store.records import BidRecord, DecisionRecord, EventRecord


class Bids(Protocol):
    """Bids are never removed. Lists are oldest first."""

    async def save(self, record: BidRecord) -> None:
        """Insert or, by id, update the outcome."""
        ...

    async def list_by_job(self, job_id: str) -> tuple[BidRecord, ...]: ...

    async def list_by_lease(self, lease_id: str) -> tuple[BidRecord, ...]: ...


class Decisions(Protocol):
    async def add(self, record: DecisionRecord) -> None: ...

    async def list_by_job(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        """Newest first."""
        ...

    async def list_newest(
        self, *, limit: int, before: str = "", owner: int | None = None
    ) -> tuple[DecisionRecord, ...]:
        """Decisions of all jobs or of that owner's, newest first; ``before``: those older than the one with that id."""
        ...

    async def forget(self, before: datetime) -> int:
        """Remove those of jobs that were over by then; returns how many."""
        ...


class Events(Protocol):
    """Lists are in order of ``seq``."""

    async def add(self, records: Iterable[EventRecord]) -> None: ...

    async def list_after(
        self, seq: int = 0, *, limit: int = 1000, since: datetime | None = None
    ) -> tuple[EventRecord, ...]:
        """The next of all events, for sequential readers; ``since``: of those that happened then or later."""
        ...

    async def find_newest(self) -> EventRecord | None:
        """The newest event of all; None: nothing has happened yet."""
        ...

    async def list_by_job(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        """The newest of one job."""
        ...

    async def list_named(self, name: str, job_ids: Collection[str], *, limit: int) -> tuple[EventRecord, ...]:
        """The newest so many of that name, of these jobs together."""
        ...

    async def list_by_lease(self, lease_id: str) -> tuple[EventRecord, ...]: ...

    async def forget(self, before: datetime) -> int:
        """Remove those of jobs that were over by then, and older ones of no job; returns how many.

        The newest event of all always stays.
        """
        ...


class Notes(Protocol):
    """Values kept for the program itself (install id and the like)."""

    async def get(self, key: str) -> str | None: ...

    async def set(self, key: str, value: str) -> None: ...
