"""The ledger's database: opening it, and its two kinds of transaction.

Writers queue here, so that none meets another's lock; readers see one snapshot each and cannot write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from autopilot.store import postgres, sqlite
from autopilot.store.failures import report_as_unavailable, report_at_commit
from autopilot.store.fence import Fence
from autopilot.store.migrate import upgrade
from autopilot.store.statements import Statements
from autopilot.store.unit_of_work import SqlUnitOfWork
from autopilot.store.urls import database_path, postgres_url


class SqlStore:
    """``fence``: once set, every transaction begins by making sure that this process still leads."""

    def __init__(self, writer: AsyncEngine, reader: AsyncEngine) -> None:
        self.fence: Fence | None = None
        self._writer = writer
        self._reader = reader
        self._writing = asyncio.Lock()
        self.revision = 0
        self._is_in_doubt = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlUnitOfWork]:
        """Raises ``StoreUnavailable``; also when the commit fails: then nothing was written, or, if it raises
        ``CommitUnknown``, the outcome is unknown.
        """
        with report_as_unavailable(), report_at_commit() as commit:
            async with self._alone(), self._writer.begin() as connection:
                if self.fence is not None:
                    await self.fence.check_and_hold(connection)
                statements = Statements(connection)
                yield SqlUnitOfWork(statements)
                statements.raise_failure()
                commit.has_begun = True

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlUnitOfWork]:
        with report_as_unavailable():
            async with self._reader.begin() as connection:
                if self.fence is not None:
                    await self.fence.check(connection)
                yield SqlUnitOfWork(Statements(connection))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """For what is about the database itself and not about its records: one transaction, read and write."""
        with report_as_unavailable():
            async with self._alone(), self._writer.begin() as connection:
                yield connection

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One writer after the other, each of which makes a new revision, however it ends."""
        async with self._writing:
            # A server may carry out a commit after the connection to it broke, and so after a snapshot that came next.
            self.revision += self._is_in_doubt
            self._is_in_doubt = True
            try:
                yield
                self._is_in_doubt = False
            finally:
                self.revision += 1

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """The same, in one snapshot that cannot write."""
        with report_as_unavailable():
            async with self._reader.begin() as connection:
                yield connection

    async def move_into_file(self) -> None:
        """For SQLite: move committed pages from the -wal file into the main file, as far as no reader needs them."""
        with report_as_unavailable():
            async with self._alone(), self._writer.connect() as connection:
                driver = (await connection.get_raw_connection()).driver_connection
                assert driver is not None
                await (await driver.execute("PRAGMA wal_checkpoint(PASSIVE)")).close()

    async def upgrade(self) -> None:
        async with self.connection() as connection:
            await connection.run_sync(upgrade)

    async def close(self) -> None:
        await self._reader.dispose()
        await self._writer.dispose()


def unopened_store(url: str, *, name: str = "autopilot") -> SqlStore:
    """The store behind ``url`` as it is: nothing is made, upgraded or even looked at yet. Raises ``UserError``.

    ``name``: what a PostgreSQL server shows this program as.
    """
    server = postgres_url(url)
    if server is not None:
        return SqlStore(postgres.writer(server, name=name), postgres.reader(server, name=name))
    path = database_path(url)
    return SqlStore(sqlite.writer(path), sqlite.reader(path))


async def open_store(url: str, *, name: str = "autopilot") -> SqlStore:
    """Open the ledger, made (a file 0600) or upgraded where needed.

    ``url``: a path, ``sqlite+aiosqlite:////abs/path.db`` or ``postgresql://user@host/database``. Raises ``UserError``
    for another kind of URL and for a database that a newer program wrote, ``StoreUnavailable`` when it cannot be
    opened or written.
    """
    if postgres_url(url) is None:
        sqlite.create_private(database_path(url))
    store = unopened_store(url, name=name)
    try:
        await store.upgrade()
    except BaseException:
        await store.close()
        raise
    return store
