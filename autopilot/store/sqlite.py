"""SQLite: the file, and connections that are set for durability."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from autopilot.ports.store import StoreUnavailable
from autopilot.store.sqlite_driver import connect

# FULL: a committed intent survives a power cut; WAL with NORMAL may lose it.
_PRAGMAS = ("busy_timeout = 5000", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")


def create_private(path: Path) -> None:
    """Make the file, 0600, where there is none. Raises ``StoreUnavailable``."""
    # Before SQLite can make it by the umask; the files beside it (-wal, -shm) take over its mode.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"the ledger's database {path} cannot be opened: {error.strerror}") from error


def writer(path: Path) -> AsyncEngine:
    return _engine(path, begin="BEGIN IMMEDIATE")


def reader(path: Path) -> AsyncEngine:
    return _engine(path, begin="BEGIN", pragmas=("query_only = ON",))


def _engine(path: Path, *, begin: str, pragmas: tuple[str, ...] = ()) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)), async_creator=partial(connect, path)
    )

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
