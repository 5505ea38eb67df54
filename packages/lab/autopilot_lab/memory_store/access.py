"""How the repositories of a unit of work in memory come to their tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autopilot.ports.store import StoreUnavailable
from autopilot_lab.memory_store.tables import MemoryTables


class Access:
    """The first failed write ends the transaction for good, as a database's would."""

    __slots__ = ("_failure", "_is_read_only", "_tables")

    def __init__(self, tables: MemoryTables, *, is_read_only: bool) -> None:
        self._tables = tables
        self._is_read_only = is_read_only
        self._failure: Exception | None = None

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def write(self) -> Iterator[MemoryTables]:
        self.raise_failure()
        try:
            if self._is_read_only:
                raise StoreUnavailable("the ledger is unavailable: a snapshot is read-only")
            yield self._tables
        except Exception as failure:
            self._failure = failure
            raise

    def read(self) -> MemoryTables:
        self.raise_failure()
        return self._tables


class MemoryRepository:
    """One family of records, read and written in the tables of its unit of work."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access
