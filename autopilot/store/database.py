"""The ledger's database on SQLite: opening it, and its two kinds of transaction.

One connection writes, so writers queue here and never meet SQLITE_BUSY; others read beside it, each its own snapshot
(WAL), and cannot write (``query_only``).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from autopilot.domain.errors import UserError
from autopilot.ports.store import StoreUnavailable
from autopilot.store.failures import reported_as_unavailable
from autopilot.store.migrate import upgrade
from autopilot.store.unit_of_work import SqlUnitOfWork

# FULL: a committed intent survives a power cut; WAL with NORMAL may lose it.
_PRAGMAS = ("busy_timeout = 5000", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")


class SqlStore:
    def __init__(self, path: Path) -> None:
        self._writer = _engine(path, begin="BEGIN IMMEDIATE")
        self._reader = _engine(path, begin="BEGIN", pragmas=("query_only = ON",))
        self._writing = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlUnitOfWork]:
        """Raises ``StoreUnavailable``; also when the commit fails, and then nothing was written."""
        with reported_as_unavailable():
            async with self._writing, self._writer.begin() as connection:
                work = SqlUnitOfWork(connection)
                yield work
                work.raise_failure()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlUnitOfWork]:
        with reported_as_unavailable():
            async with self._reader.begin() as connection:
                yield SqlUnitOfWork(connection)

    async def upgrade(self) -> None:
        with reported_as_unavailable():
            async with self._writing, self._writer.begin() as connection:
                await connection.run_sync(upgrade)

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()


async def open_store(url: str) -> SqlStore:
    """Open the ledger, made (0600) or upgraded where needed.

    ``url``: ``sqlite+aiosqlite:////abs/path.db`` or a plain path. Raises ``UserError`` for another kind of URL and for
    a database that a newer program wrote, ``StoreUnavailable`` when it cannot be opened or written.
    """
    path = database_path(url)
    _create_private(path)
    store = SqlStore(path)
    try:
        await store.upgrade()
    except BaseException:
        await store.close()
        raise
    return store


def database_path(url: str) -> Path:
    """The file behind a ledger URL. Raises ``UserError``."""
    if "://" not in url:
        return Path(url).expanduser().absolute()
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    is_file = parsed is not None and parsed.get_backend_name() == "sqlite" and not parsed.query
    if parsed is None or not is_file or parsed.database in (None, "", ":memory:"):
        shown = url if parsed is None else parsed.render_as_string(hide_password=True)
        raise UserError(f"not a ledger URL: {shown}", hint="give a file: /var/lib/autopilot/ledger.db")
    return Path(str(parsed.database)).absolute()


def _create_private(path: Path) -> None:
    # Before SQLite can make it by the umask; the files beside it (-wal, -shm) take over its mode.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"the ledger's database {path} cannot be opened: {error.strerror}") from error


def _engine(path: Path, *, begin: str, pragmas: tuple[str, ...] = ()) -> AsyncEngine:
    engine = create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself; ``start`` below does
        cursor = connection.cursor()
        for pragma in (*_PRAGMAS, *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
