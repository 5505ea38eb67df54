"""The store in memory: transactions one after the other, snapshots beside them, and the ways in which it can break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autopilot.ports.store import CommitUnknown, StoreUnavailable
from autopilot_lab.memory_store.access import Access
from autopilot_lab.memory_store.tables import Committed, MemoryTables
from autopilot_lab.memory_store.unit_of_work import MemoryUnitOfWork


class MemoryStore:
    def __init__(self) -> None:
        self._committed: Committed = {}
        self._snapshots: list[MemoryTables] = []
        self._writing = asyncio.Lock()
        self.revision = 0
        self._is_open = True
        self._is_kept_by_broken_commit: bool | None = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryUnitOfWork]:
        self._check_open()
        async with self._writing:
            tables = MemoryTables(self._committed)
            access = Access(tables, is_read_only=False)
            try:
                yield MemoryUnitOfWork(access)
                access.raise_failure()
                self._check_open()
                tables.check_references()
                self._commit(tables)
            finally:
                self.revision += 1

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[MemoryUnitOfWork]:
        self._check_open()
        tables = MemoryTables(self._committed)
        self._snapshots.append(tables)
        try:
            yield MemoryUnitOfWork(Access(tables, is_read_only=True))
        finally:
            self._snapshots.remove(tables)

    async def close(self) -> None:
        self._is_open = False

    def kill(self) -> MemoryStore:
        """As SIGKILL to the process: what was not committed is lost and this store answers no more.

        Returns the store that the next process opens.
        """
        self._is_open = False
        reopened = MemoryStore()
        reopened._committed = self._committed
        return reopened

    def copy(self) -> MemoryStore:
        """What is committed now, in a store of its own: as a backup does."""
        copied = MemoryStore()
        copied._committed = {table: dict(rows) for table, rows in self._committed.items()}
        return copied

    def break_next_commit(self, *, is_kept: bool) -> None:
        """The next commit raises ``CommitUnknown``, having written everything (``is_kept``) or nothing."""
        self._is_kept_by_broken_commit = is_kept

    def _commit(self, tables: MemoryTables) -> None:
        is_kept, self._is_kept_by_broken_commit = self._is_kept_by_broken_commit, None
        if is_kept is not False:
            for position, rows in enumerate(tables.all()):
                if not rows.changes:
                    continue
                for snapshot in self._snapshots:
                    snapshot.all()[position].keep_as_it_is(iter(rows.changes))
                rows.commit()
        if is_kept is not None:
            raise CommitUnknown("the connection was lost during a commit, whose outcome is unknown")

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the ledger is unavailable: this store is closed")
