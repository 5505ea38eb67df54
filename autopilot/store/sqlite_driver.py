"""aiosqlite, with one turn of its thread for a statement.

Its own cursor takes four: make it, execute, fetch, close. Each turn wakes a thread and then the loop, which costs more
than most of our statements do.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

_FIRST_ROWS = 1000
"""So many come with the execution. A result that is longer stays open, so that it can be read in bounded parts."""

T = TypeVar("T")
Row = tuple[Any, ...]


class SqliteConnection(aiosqlite.Connection):
    """What SQLAlchemy's dialect asks of an aiosqlite connection."""

    def cursor(self) -> SqliteCursor:  # type: ignore[override]  # ours is made without a turn, so nothing is awaited
        return SqliteCursor(self)

    async def in_its_thread(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Raises ``ValueError`` when the connection is closed."""
        return await self._execute(function, self._conn)  # type: ignore[no-any-return, no-untyped-call]


async def connect(path: Path) -> SqliteConnection:
    """Raises ``sqlite3.Error``."""
    connection = SqliteConnection(partial(sqlite3.connect, str(path)), _FIRST_ROWS)
    # A program that ends without closing its ledger must not wait for this thread.
    connection._thread.daemon = True
    await connection
    return connection


class SqliteCursor:
    """One statement at a time. What it answered is kept here; the driver's own cursor only while rows are left."""

    def __init__(self, connection: SqliteConnection) -> None:
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1
        self._connection = connection
        self._rows: deque[Row] = deque()
        self._open: sqlite3.Cursor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> None:
        await self._run(lambda cursor: cursor.execute(sql, parameters or ()))

    async def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> None:
        await self._run(lambda cursor: cursor.executemany(sql, parameters))

    async def fetchall(self) -> list[Row]:
        rows = list(self._rows)
        self._rows.clear()
        if self._open is not None:
            rows += await self._read(None)
        return rows

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        wanted = self.arraysize if size is None else size
        if len(self._rows) < wanted and self._open is not None:
            self._rows.extend(await self._read(wanted - len(self._rows)))
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    async def fetchone(self) -> Row | None:
        return next(iter(await self.fetchmany(1)), None)

    async def close(self) -> None:
        self._rows.clear()
        if self._open is not None:
            open_one, self._open = self._open, None
            await self._connection.in_its_thread(lambda _: open_one.close())

    async def _run(self, start: Callable[[sqlite3.Cursor], object]) -> None:
        await self.close()

        def run(connection: sqlite3.Connection) -> tuple[sqlite3.Cursor, Any, list[Row], bool]:
            cursor = connection.cursor()
            try:
                start(cursor)
                description = cursor.description
                rows = cursor.fetchmany(_FIRST_ROWS) if description else []
            except BaseException:
                cursor.close()
                raise
            is_whole = len(rows) < _FIRST_ROWS
            if is_whole:
                cursor.close()
            return cursor, description, rows, is_whole

        cursor, self.description, rows, is_whole = await self._connection.in_its_thread(run)
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        self._rows.extend(rows)
        self._open = None if is_whole else cursor

    async def _read(self, count: int | None) -> list[Row]:
        open_one = self._open
        assert open_one is not None

        def read(_: sqlite3.Connection) -> tuple[list[Row], bool]:
            rows = open_one.fetchall() if count is None else open_one.fetchmany(count)
            is_whole = count is None or len(rows) < count
            if is_whole:
                open_one.close()
            return rows, is_whole

        rows, is_whole = await self._connection.in_its_thread(read)
        if is_whole:
            self._open = None
        return rows
