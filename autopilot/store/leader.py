"""Who leads: of all daemons on one ledger a single one acts, and another takes over when it dies or falls silent.

A file is held by locks that a second daemon meets and gives up at; the row of ``leader`` tells it whom it met. On a
PostgreSQL server the leader holds an advisory lock on a connection of its own, which is free the moment that it dies,
and says every few seconds that it is alive in the row of ``leader``; a standby ends the sessions of one that has been
silent for too long (stopped, swapped out, cut off). The new leader raises the row's epoch, and ``Fence`` refuses later
writes of the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import URL, Row, TextClause, text, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.clock import SystemClock
from autopilot.domain.errors import UserError
from autopilot.ports.store import StoreUnavailable
from autopilot.store import postgres
from autopilot.store.database import SqlStore, open_store
from autopilot.store.failures import report_as_unavailable
from autopilot.store.fence import Fence
from autopilot.store.lock import single_writer
from autopilot.store.schema import leader
from autopilot.store.urls import database_path, mask_password, postgres_url

log = structlog.get_logger(__name__)

RENEW_EVERY_S = 3.0
SILENT_AFTER_S = 12.0
"""How long a leader may be silent before another daemon takes its place, by the server's clock."""
LOOK_EVERY_S = 1.0
HOME_NOTE = "ledger_home"
"""The note that names the database that it was written into."""
_LOCK_KEY = int.from_bytes(b"autopilt")

_INCUMBENT = text(
    "SELECT holder, extract(epoch FROM clock_timestamp() - renewed_at) AS silent_s FROM leader WHERE id = 1"
)
# A daemon that holds the lock but is not yet in the row is on its way in, and none of those that fell silent.
_UNSEAT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = :holder AND pid <> pg_backend_pid()"
)
_HOME = text(
    "SELECT system_identifier || '/' || oid FROM pg_control_system(), pg_database WHERE datname = current_database()"
)
_BEFORE = text("SELECT renewed_at FROM leader WHERE id = 1 FOR UPDATE")
_TAKE = text(
    "INSERT INTO leader (id, epoch, holder, taken_at, renewed_at)"
    " VALUES (1, 1, :holder, clock_timestamp(), clock_timestamp())"
    " ON CONFLICT (id) DO UPDATE SET epoch = leader.epoch + 1, holder = excluded.holder,"
    " taken_at = excluded.taken_at, renewed_at = excluded.renewed_at RETURNING epoch"
)
_RENEW = text("UPDATE leader SET renewed_at = clock_timestamp() WHERE id = 1 AND epoch = :epoch RETURNING epoch")
_FENCE_OFF = text("UPDATE leader SET epoch = epoch + 1 WHERE id = 1")
_RELEASE = text("UPDATE leader SET renewed_at = NULL WHERE id = 1 AND epoch = :epoch")


@dataclass(frozen=True, slots=True)
class Lead:
    """The ledger, led by this process."""

    store: SqlStore
    shared: SharedLead | None = None
    """None: the ledger is a file, whose lock cannot be lost."""


@dataclass(frozen=True, slots=True)
class SharedLead:
    fence: Fence
    home: str
    """Names the database itself: a copy of it has another."""
    is_takeover: bool
    """The one before did not say that it was done: what it sent last may still take effect."""


@asynccontextmanager
async def leading(url: str, *, on_standby: Callable[[str], None]) -> AsyncIterator[Lead]:
    """Hold the ledger alone, opened, made or upgraded.

    On a server this waits until no other daemon leads; ``on_standby`` hears at every look whom it waits for. Raises
    ``UserError`` when another daemon holds the file and for what ``open_store`` refuses, ``StoreUnavailable``.
    """
    server = postgres_url(url)
    if server is None:
        with single_writer(database_path(url)):
            store = await open_store(url)
            try:
                await _name_leader(store)
                yield Lead(store)
                await _name_leader(store, is_over=True)
            finally:
                await store.close()
        return
    seat = _Seat(server, _name())
    try:
        await seat.wait(on_standby)
        async with seat.take(url) as lead:
            yield lead
    finally:
        await seat.close()


@asynccontextmanager
async def set_apart(url: str) -> AsyncIterator[None]:
    """No daemon works on the ledger meanwhile. Raises ``UserError`` when one does, ``StoreUnavailable``."""
    server = postgres_url(url)
    if server is None:
        with single_writer(database_path(url)):
            yield
        return
    seat = _Seat(server, _name())
    try:
        if not await seat.try_lock():
            raise UserError(f"a daemon works on {mask_password(url)}", hint="stop it first, and any standby daemons")
        await seat.fence_off()
        yield
    finally:
        await seat.close()


class _Seat:
    """The advisory lock, on a connection of its own, and the leader's row."""

    def __init__(self, url: URL, name: str) -> None:
        self._engine = postgres.lone(url, name=name)
        self._connection: AsyncConnection | None = None
        self._name = name

    async def wait(self, on_standby: Callable[[str], None]) -> None:
        """Until the lock is ours. Raises ``StoreUnavailable`` only before it has once been waited for."""
        waiting_for = None
        while True:
            try:
                if await self.try_lock():
                    return
                holder, silent_s = await self._incumbent()
                if holder != waiting_for:
                    waiting_for = holder
                    log.info("leadership.awaited", leader=holder)
                on_standby(holder)
                is_silent = silent_s is not None and silent_s > SILENT_AFTER_S
                if is_silent and await self._run(_UNSEAT, holder=holder):
                    log.warning("leadership.unseated", leader=holder, silent_s=silent_s)
            except StoreUnavailable as problem:
                if waiting_for is None:
                    raise
                log.warning("leadership.unclear", reason=str(problem))
            await asyncio.sleep(LOOK_EVERY_S)

    @asynccontextmanager
    async def take(self, url: str) -> AsyncIterator[Lead]:
        store = await open_store(url, name=self._name)
        try:
            async with store.connection() as connection:
                before = (await connection.execute(_BEFORE)).first()
                epoch = (await connection.execute(_TAKE, {"holder": self._name})).scalar_one()
                home = (await connection.execute(_HOME)).scalar_one()
            fence = store.fence = Fence(epoch)
            lead = SharedLead(fence, home, is_takeover=before is not None and before[0] is not None)
            log.info("leadership.taken", epoch=epoch, holder=self._name, is_takeover=lead.is_takeover)
            ending = asyncio.Event()
            renewing = asyncio.create_task(self._renew(fence, ending), name="leadership")
            try:
                yield Lead(store, lead)
            finally:
                # Not cancelled: that would cut the connection, and with it the lock, before the row tells of the end.
                ending.set()
                await asyncio.wait({renewing})
                await self._release(fence)
        finally:
            await store.close()

    async def close(self) -> None:
        await self._drop()
        await self._engine.dispose()

    async def _renew(self, fence: Fence, ending: asyncio.Event) -> None:
        """While the server is unreachable, a takeover is unknown: only its row shows one."""
        while not fence.lost.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), RENEW_EVERY_S)
                return
            try:
                # The lock is held once, however often it is asked for, as long as its session lives.
                if self._connection is None and not await self.try_lock():
                    continue
                if not await self._run(_RENEW, epoch=fence.epoch):
                    fence.lost.set()
                    log.error("leadership.lost", epoch=fence.epoch)
            except StoreUnavailable as problem:
                log.warning("leadership.unclear", reason=str(problem))

    async def _release(self, fence: Fence) -> None:
        """Tell the next one that nothing of ours is on its way."""
        if fence.lost.is_set():
            return
        try:
            await self._run(_RELEASE, epoch=fence.epoch)
        except StoreUnavailable as problem:
            log.warning("leadership.unclear", reason=str(problem))

    async def try_lock(self) -> bool:
        """Raises ``StoreUnavailable``."""
        rows = await self._run(text("SELECT pg_try_advisory_lock(:key)"), key=_LOCK_KEY)
        is_ours = bool(rows[0][0])
        if not is_ours:
            await self._drop()
        return is_ours

    async def fence_off(self) -> None:
        """A leader that has lost the lock and does not know it yet writes no more."""
        if await self._has_row():
            await self._run(_FENCE_OFF)

    async def _has_row(self) -> bool:
        return bool((await self._run(text("SELECT to_regclass('leader') IS NOT NULL")))[0][0])

    async def _incumbent(self) -> tuple[str, float | None]:
        """Its name and for how long it has been silent; None if there is nothing to go by."""
        rows = await self._run(_INCUMBENT) if await self._has_row() else []
        if not rows:
            return "another daemon", None
        silent_s = rows[0].silent_s
        return str(rows[0].holder), None if silent_s is None else float(silent_s)

    async def _run(self, statement: TextClause, **values: object) -> list[Row[Any]]:
        """On the lock's connection, which a failure ends."""
        try:
            with report_as_unavailable():
                if self._connection is None:
                    self._connection = await self._engine.connect()
                result = await self._connection.execute(statement, values)
                return list(result.all()) if result.returns_rows else []
        except BaseException:  # cancelled, too: the state of the connection is unknown then
            await self._drop()
            raise

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.invalidate()
                await connection.close()


async def _name_leader(store: SqlStore, *, is_over: bool = False) -> None:
    """In a ledger in a file, for people and for daemons that meet its lock; in the file itself, not beside it."""
    now = SystemClock().now()
    values = {"holder": _name(), "taken_at": now, "renewed_at": now}
    with contextlib.suppress(StoreUnavailable):  # the lock alone decides who leads
        async with store.connection() as connection:
            if is_over:
                await connection.execute(update(leader).values(renewed_at=None))
                return
            new = insert(leader).values(id=1, epoch=1, **values)
            raised = {"epoch": leader.c.epoch + 1, **values}
            await connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=raised))
        await store.move_into_file()


def _name() -> str:
    """As the server and people see this process; one of its kind, at most the 63 bytes that the server keeps."""
    return f"autopilot {socket.gethostname()[:30]}:{os.getpid()}:{secrets.token_hex(3)}"
