"""How the repositories of a unit of work speak to their one connection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import CursorResult, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.store.failures import report_as_unavailable

Values = dict[str, Any]


class Statements:
    """Runs statements on the connection of one open transaction. Every method may raise ``StoreUnavailable``.

    The first failure ends it for good: SQLite may have rolled back already, or have kept half of the rows, so that a
    later statement would write half of what was meant.
    """

    __slots__ = ("_connection", "_failure")

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._failure: Exception | None = None

    @property
    def dialect_name(self) -> str:
        return self._connection.dialect.name

    def raise_failure(self) -> None:
        """Raise what the first failed statement raised, if any did."""
        if self._failure is not None:
            raise self._failure

    async def run(self, statement: Executable, rows: Sequence[Values] | None = None) -> CursorResult[Any]:
        self.raise_failure()
        try:
            with report_as_unavailable():
                return await self._connection.execute(statement, rows)
        except Exception as error:
            self._failure = error
            raise

    async def fetch_all(self, statement: Executable) -> Sequence[Sequence[Any]]:
        return (await self.run(statement)).all()

    async def fetch_first(self, statement: Executable) -> Sequence[Any] | None:
        return (await self.run(statement)).first()

    async def upsert(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert; where the primary key already exists, update every other column."""
        if rows:
            await self.run(_upsert_into(table, self.dialect_name), rows)

    async def append(self, table: Table, rows: Sequence[Values]) -> None:
        """Insert those whose primary key is new."""
        if rows:
            await self.run(_append_to(table, self.dialect_name), rows)

    async def append_new(self, table: Table, rows: Sequence[Values]) -> Sequence[Sequence[Any]]:
        """Insert those whose primary key is new; returns these keys, for which many rows take twice as long."""
        if not rows:
            return ()
        return (await self.run(_append_new_to(table, self.dialect_name), rows)).all()


class SqlRepository:
    """One family of records, read and written through the statements of its unit of work."""

    __slots__ = ("_sql",)

    def __init__(self, sql: Statements) -> None:
        self._sql = sql


# Kept, because building a wide statement costs more than running it.
@cache
def _upsert_into(table: Table, dialect_name: str) -> Executable:
    insert = _insert_into(table, dialect_name)
    updates = {column.key: insert.excluded[column.key] for column in table.c if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=updates)


@cache
def _append_to(table: Table, dialect_name: str) -> sqlite.Insert | postgresql.Insert:
    return _insert_into(table, dialect_name).on_conflict_do_nothing(index_elements=table.primary_key.columns)


@cache
def _append_new_to(table: Table, dialect_name: str) -> Executable:
    return _append_to(table, dialect_name).returning(*table.primary_key.columns)


def _insert_into(table: Table, dialect_name: str) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect_name == "sqlite" else postgresql.insert(table)
