"""How the parts of a unit of work speak to their one connection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import CursorResult, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.store.failures import reported_as_unavailable

Values = dict[str, Any]


class Statements:
    """Runs statements on the connection of one open transaction. Every method may raise ``StoreUnavailable``.

    The first failure ends it for good: SQLite may have rolled back already, or have kept half of the rows, so that
    whatever a caller did after it would be half of what was meant.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._failure: Exception | None = None

    def raise_failure(self) -> None:
        """Raise what the first failed statement raised, if any did."""
        if self._failure is not None:
            raise self._failure

    async def _run(self, statement: Executable, rows: Sequence[Values] | None = None) -> CursorResult[Any]:
        self.raise_failure()
        try:
            with reported_as_unavailable():
                return await self._connection.execute(statement, rows)
        except Exception as error:
            self._failure = error
            raise

    async def _all(self, statement: Executable) -> Sequence[Sequence[Any]]:
        return (await self._run(statement)).all()

    async def _first(self, statement: Executable) -> Sequence[Any] | None:
        return (await self._run(statement)).first()

    async def _upsert(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert; where the primary key is there already, update every other column."""
        if rows:
            await self._run(_upsert_into(table, self._connection.dialect.name), rows)

    async def _append(self, table: Table, rows: Sequence[Values]) -> int:
        """Insert those whose primary key is new; returns how many that were."""
        return len(await self._append_new(table, rows))

    async def _append_new(self, table: Table, rows: Sequence[Values]) -> Sequence[Sequence[Any]]:
        """Insert those whose primary key is new; returns these keys."""
        if not rows:
            return ()
        return (await self._run(_append_to(table, self._connection.dialect.name), rows)).all()


# Kept, because building a wide statement costs more than running it.
@cache
def _upsert_into(table: Table, dialect_name: str) -> Executable:
    insert = _insert_into(table, dialect_name)
    updates = {column.key: insert.excluded[column.key] for column in table.c if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=updates)


@cache
def _append_to(table: Table, dialect_name: str) -> Executable:
    key = table.primary_key.columns
    return _insert_into(table, dialect_name).on_conflict_do_nothing(index_elements=key).returning(*key)


def _insert_into(table: Table, dialect_name: str) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect_name == "sqlite" else postgresql.insert(table)
