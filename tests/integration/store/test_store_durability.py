"""All or nothing, durable, and a clear word when the database cannot serve."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from autopilot.domain.errors import UserError
from autopilot.ports.store import ConstraintViolated, StoreUnavailable
from autopilot.store.database import SqlStore, open_store
from autopilot.store.urls import database_path
from tests.permissions import UNPRIVILEGED
from tests.store_records import a_job, a_lease, an_entry


@contextmanager
def every_connection_set_to(pragma: str) -> Iterator[None]:
    def apply(connection: Any, *_: object) -> None:
        connection.cursor().execute(f"PRAGMA {pragma}")

    event.listen(Pool, "checkout", apply)
    try:
        yield
    finally:
        event.remove(Pool, "checkout", apply)


async def job_ids(store: SqlStore) -> list[str]:
    async with store.snapshot() as work:
        return [job.id for job in await work.jobs.list_newest(limit=10)]


async def test_an_exception_rolls_everything_back(store: SqlStore) -> None:
    async def fail() -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.ledger.post([an_entry("e1", "1")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with store.snapshot() as work:
        assert (await work.jobs.list_open(), await work.ledger.list_entries("lease-1")) == ((), ())


async def test_a_cancelled_transaction_leaves_nothing_and_the_store_usable(store: SqlStore) -> None:
    written = asyncio.Event()

    async def write() -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("cancelled"))
            written.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with store.transaction() as work:
        await work.jobs.save(a_job("after"))
    assert await job_ids(store) == ["after"]


async def test_a_failure_that_the_caller_swallows_still_ends_the_transaction(store: SqlStore) -> None:
    async def swallow() -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease("l1"),)))
            with pytest.raises(ConstraintViolated):
                await work.leases.save(a_lease("l2"))
            with pytest.raises(ConstraintViolated):
                await work.notes.set("half", "written")

    with pytest.raises(ConstraintViolated):
        await swallow()
    assert await job_ids(store) == []


async def test_writers_wait_for_each_other_and_readers_see_only_what_is_committed(store: SqlStore) -> None:
    async def count_up() -> None:
        async with store.transaction() as work:
            value = int(await work.notes.get("count") or 0)
            await asyncio.sleep(0)
            await work.notes.set("count", str(value + 1))

    await asyncio.gather(*(count_up() for _ in range(20)))
    async with store.snapshot() as before:
        assert await before.notes.get("count") == "20"
        await count_up()
        assert await before.notes.get("count") == "20"
        async with store.snapshot() as after:
            assert await after.notes.get("count") == "21"


async def test_a_snapshot_cannot_write(store: SqlStore) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"):
        async with store.snapshot() as work:
            await work.notes.set("key", "value")


def test_a_commit_survives_a_kill(ledger_path: Path) -> None:
    program = """
import asyncio, sys
from autopilot.store.database import open_store

async def main():
    store = await open_store(sys.argv[1])
    async with store.transaction() as work:
        await work.notes.set("intent", "committed")
    async with store.transaction() as work:
        await work.notes.set("intent", "never committed")
        print("now", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program, str(ledger_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.send_signal(signal.SIGKILL)

    async def look() -> str | None:
        store = await open_store(str(ledger_path))
        async with store.transaction() as work:
            found = await work.notes.get("intent")
        await store.close()
        return found

    assert asyncio.run(look()) == "committed"


async def test_every_connection_is_set_for_durability(store: SqlStore, ledger_path: Path) -> None:
    seen: dict[str, Any] = {}

    def look(connection: Any, *_: object) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
            cursor.execute(f"PRAGMA {pragma}")
            seen[pragma] = cursor.fetchone()[0]

    event.listen(Pool, "checkout", look)
    try:
        async with store.transaction():
            pass
    finally:
        event.remove(Pool, "checkout", look)
    assert seen == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}


async def test_a_full_disk(store: SqlStore) -> None:
    async def write() -> None:
        async with store.transaction() as work:
            await work.notes.set("small", "fits")
            await work.notes.set("large", "x" * 1_000_000)

    async with store.transaction() as work:
        await work.notes.set("before", "kept")
    no_room = every_connection_set_to("max_page_count = 1")  # SQLite lifts this to the pages there are
    with no_room, pytest.raises(StoreUnavailable, match="the disk is full"):
        await write()
    async with store.snapshot() as work:
        assert [await work.notes.get(key) for key in ("before", "small", "large")] == ["kept", None, None]
    with every_connection_set_to("max_page_count = 1000000"):
        await write()


async def test_a_database_locked_by_another_process(store: SqlStore, ledger_path: Path) -> None:
    other = sqlite3.connect(ledger_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with every_connection_set_to("busy_timeout = 20"):
        with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
            async with store.transaction():
                pytest.fail("the block must not be entered")
        assert await job_ids(store) == []  # reading goes on
        other.execute("ROLLBACK")
        async with store.transaction() as work:
            await work.notes.set("key", "value")
    other.close()


@pytest.fixture
def others_directory() -> Iterator[Path]:
    """A directory that an unprivileged process can reach; the test's own may be closed to it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def closed_to_writing(directory: Path) -> Iterator[None]:
    """The directory and what is in it may only be read; root may write anything, so drop its rights meanwhile."""
    files, was_root = list(directory.iterdir()), os.geteuid() == 0
    for file in files:
        file.chmod(0o444)
    directory.chmod(0o555)
    if was_root:
        os.seteuid(UNPRIVILEGED)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        directory.chmod(0o755)


async def test_a_read_only_file(others_directory: Path) -> None:
    url = str(others_directory / "ledger.db")
    await (await open_store(url)).close()
    with closed_to_writing(others_directory), pytest.raises(StoreUnavailable, match=r"read-only|cannot be opened"):
        await open_store(url)


async def test_a_directory_that_may_not_be_written(others_directory: Path) -> None:
    denied = pytest.raises(StoreUnavailable, match=r"cannot be opened: Permission denied")
    with closed_to_writing(others_directory), denied:
        await open_store(str(others_directory / "ledger.db"))


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"a letter to a friend, long enough to be no header of a database at all" * 20)
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        await open_store(str(path))
    assert path.read_bytes().startswith(b"a letter")


async def test_the_files_are_private_under_any_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        store = await open_store(f"sqlite+aiosqlite:///{tmp_path}/state dir/a?b%20c#.db".replace("?", "%3F"))
    finally:
        os.umask(umask)
    try:
        async with store.transaction() as work:
            await work.notes.set("key", "value")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "state dir").iterdir()}
        assert len(modes) == 3
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE((tmp_path / "state dir").stat().st_mode) == 0o700
    finally:
        await store.close()


def test_a_ledger_url_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert database_path("sqlite+aiosqlite:////var/lib/ledger.db") == Path("/var/lib/ledger.db")
    assert database_path("sqlite:////var/lib/ledger.db") == Path("/var/lib/ledger.db")
    assert database_path("/var/lib/ledger.db") == Path("/var/lib/ledger.db")
    assert database_path("ledger.db") == tmp_path / "ledger.db"
    assert database_path("~/ledger.db") == Path.home() / "ledger.db"


@pytest.mark.parametrize(
    "url",
    ["postgresql+psycopg://me:secret@host/db", "sqlite://", "sqlite:///:memory:", "sqlite:///a.db?mode=ro", "://"],
)
def test_any_other_url_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(UserError, match="not a ledger URL") as raised:
        database_path(url)
    assert "secret" not in str(raised.value)
