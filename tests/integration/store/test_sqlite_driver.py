"""One turn of the thread for a statement: rows, errors and long results come as from the driver's own cursor."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from autopilot.store import sqlite
from autopilot.store.sqlite_driver import _FIRST_ROWS, SqliteConnection, connect

_MANY = _FIRST_ROWS + 500


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[SqliteConnection]:
    made = await connect(tmp_path / "x.db")
    try:
        cursor = made.cursor()
        await cursor.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        await cursor.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(_MANY)])
        assert cursor.rowcount == _MANY
        await made.commit()
        yield made
    finally:
        await made.close()


async def count_turns(connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    turns: list[int] = []
    execute: Callable[..., Awaitable[object]] = SqliteConnection._execute

    async def counted(self: SqliteConnection, *arguments: object) -> object:
        turns.append(1)
        return await execute(self, *arguments)

    monkeypatch.setattr(SqliteConnection, "_execute", counted)
    return turns


async def test_a_statement_takes_one_turn(connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = await count_turns(connection, monkeypatch)
    cursor = connection.cursor()
    await cursor.execute("SELECT n FROM numbers WHERE n < ?", (3,))
    assert [column[0] for column in cursor.description] == ["n"]
    assert await cursor.fetchall() == [(0,), (1,), (2,)]
    await cursor.close()
    assert len(turns) == 1


async def test_a_long_result_is_whole(connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = connection.cursor()
    await cursor.execute("SELECT n FROM numbers ORDER BY n")
    turns = await count_turns(connection, monkeypatch)
    assert await cursor.fetchall() == [(n,) for n in range(_MANY)]
    assert len(turns) == 1
    assert await cursor.fetchall() == []


@pytest.mark.parametrize("size", [1, 7, 999, _FIRST_ROWS, 1400, _MANY, _MANY + 1])
async def test_a_long_result_is_read_in_parts(connection: SqliteConnection, size: int) -> None:
    cursor = connection.cursor()
    await cursor.execute("SELECT n FROM numbers ORDER BY n")
    seen: list[int] = []
    while rows := await cursor.fetchmany(size):
        assert len(rows) == min(size, _MANY - len(seen))
        seen += [n for (n,) in rows]
    assert seen == list(range(_MANY))
    assert await cursor.fetchone() is None


async def test_an_error_leaves_cursor_and_connection_usable(connection: SqliteConnection) -> None:
    cursor = connection.cursor()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await cursor.execute("SELECT * FROM letters")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        await cursor.execute("INSERT INTO numbers VALUES (1)")
    await cursor.execute("INSERT INTO numbers VALUES (?) RETURNING n", (_MANY,))
    assert (await cursor.fetchone(), cursor.rowcount) == ((_MANY,), 1)


async def test_unread_rows_hold_no_lock(connection: SqliteConnection, tmp_path: Path) -> None:
    cursor = connection.cursor()
    await cursor.execute("SELECT n FROM numbers")
    await cursor.close()
    await connection.commit()
    other = await connect(tmp_path / "x.db")
    try:
        await other.cursor().execute("DROP TABLE numbers")
        await other.commit()
    finally:
        await other.close()


async def test_a_cursor_reads_its_latest_statement_alone(connection: SqliteConnection) -> None:
    cursor = connection.cursor()
    await cursor.execute("SELECT n FROM numbers")
    await cursor.execute("SELECT 'next'")
    assert await cursor.fetchall() == [("next",)]


async def test_an_abandoned_statement_does_no_harm(connection: SqliteConnection) -> None:
    waiting = asyncio.ensure_future(connection.cursor().execute("SELECT n FROM numbers"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    cursor = connection.cursor()
    await cursor.execute("SELECT count(*) FROM numbers")
    assert await cursor.fetchone() == (_MANY,)


async def test_a_closed_connection_says_so(tmp_path: Path) -> None:
    made = await connect(tmp_path / "x.db")
    await made.close()
    with pytest.raises(ValueError, match="no active connection"):
        await made.cursor().execute("SELECT 1")


async def test_sqlalchemy_streams_through_it(tmp_path: Path) -> None:
    engine = sqlite.writer(tmp_path / "x.db")
    numbers = f"WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t WHERE n < {_MANY - 1}) SELECT n FROM t"
    try:
        async with engine.begin() as connection:
            assert (await connection.execute(text(numbers))).scalars().all() == list(range(_MANY))
            async with connection.stream(text(numbers), execution_options={"yield_per": 64}) as rows:
                assert [row.n async for row in rows] == list(range(_MANY))
    finally:
        await engine.dispose()
