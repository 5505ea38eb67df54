"""What is done to a ledger as a whole: upgrade, backup, export, move."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.domain.errors import UserError
from autopilot.ports.store import StoreUnavailable, UnitOfWork
from autopilot.store.database import SqlStore, open_store, unopened_store
from autopilot.store.leader import HOME_NOTE, set_apart
from autopilot.store.migrate import check_revision
from autopilot.store.rollup import drift, rebuild
from autopilot.store.schema import REVISION, notes
from autopilot.store.statements import Statements
from autopilot.store.transfer import TABLES, Fingerprint, batches, copy, plain_row
from autopilot.store.unit_of_work import SqlUnitOfWork
from autopilot.store.urls import database_path, mask_password, postgres_url


async def upgrade(url: str) -> str:
    """Bring the ledger to this program's schema, and its sums to its entries; returns the revision.

    Raises ``UserError`` while a daemon works on it and for a ledger of a newer program, ``StoreUnavailable``.
    """
    async with set_apart(url), _open(url) as store, store.connection() as connection:
        if await connection.run_sync(drift):
            await connection.run_sync(rebuild)
    return REVISION


async def back_up(url: str, file: Path) -> None:
    """A copy as a SQLite file (0600), whole and consistent although the daemon works on.

    Raises ``UserError`` when ``file`` exists, or when a ledger on a server is not of this program's schema.
    """
    with _written_whole(file) as partial:
        if postgres_url(url) is None:
            await asyncio.to_thread(_copy_file, _existing(url), partial)
            return
        async with _read(url) as source, _open(str(partial)) as store, store.connection() as target:
            await copy(source, target)


async def export(url: str, file: Path) -> dict[str, int]:
    """Every row as a line of JSON, ``{"table": …, "row": {column: value}}``, after a line that names the schema.

    Gzipped when ``file`` ends in ``.gz``. Returns the number of rows by table. Raises ``UserError``.
    """
    counts = {}
    with _written_whole(file) as partial:
        async with _read(url) as source:
            with _text_file(partial, is_gzip=file.suffix == ".gz") as out:
                out.write(json.dumps({"ledger": "autopilot", "schema": REVISION}) + "\n")
                for table in TABLES:
                    counts[table.name] = 0
                    names, plain = [column.name for column in table.c], plain_row(table)
                    async for batch in batches(source, table):
                        counts[table.name] += len(batch)
                        for row in batch:
                            line = {"table": table.name, "row": dict(zip(names, plain(row), strict=True))}
                            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    return counts


async def move(url: str, to: str) -> list[Fingerprint]:
    """Copy the whole ledger to an empty place, in one transaction, and read it back there row by row.

    The source stays as it is. Raises ``UserError`` while a daemon works on either, when the target is not empty and
    when it does not give back what was written; ``StoreUnavailable``.
    """
    if mask_password(url) == mask_password(to):
        raise UserError("the ledger already exists", hint="use the URL of another database")
    if postgres_url(url) is None:
        _existing(url)
    async with (
        set_apart(url),
        set_apart(to),
        _open(url) as old,
        _open(to) as new,
        old.reading() as source,
        new.connection() as target,
    ):
        copied = await copy(source, target)
        # The one thing that is not the same in another place.
        await target.execute(delete(notes).where(notes.c.key == HOME_NOTE))
    return copied


@asynccontextmanager
async def ledger_without_daemon(url: str) -> AsyncIterator[SqlStore]:
    """A ledger that is there, to be changed. Raises ``UserError`` while a daemon works on it."""
    if postgres_url(url) is None:
        _existing(url)
    async with set_apart(url), _open(url) as store:
        yield store


@asynccontextmanager
async def ledger_as_it_is(url: str) -> AsyncIterator[UnitOfWork]:
    """One view of a ledger of this program's schema, which a daemon may be working on. Raises ``UserError`` for any
    other, ``StoreUnavailable``.
    """
    async with _read(url) as connection:
        yield SqlUnitOfWork(Statements(connection))


@asynccontextmanager
async def _open(url: str) -> AsyncIterator[SqlStore]:
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _read(url: str) -> AsyncIterator[AsyncConnection]:
    """One snapshot of a ledger of this program's schema; anything else is a ``UserError``."""
    if postgres_url(url) is None:
        _existing(url)
    store = unopened_store(url)
    try:
        async with store.reading() as connection:
            await connection.run_sync(check_revision)
            yield connection
    finally:
        await store.close()


def _existing(url: str) -> Path:
    path = database_path(url)
    try:
        path.stat()
    except FileNotFoundError:
        raise UserError(f"there is no ledger at {path}", hint="set ledger.url, or start the daemon once") from None
    except OSError as problem:
        hint = "run it as the daemon's user, or with sudo"
        raise UserError(f"the ledger {path} cannot be read: {problem.strerror}", hint=hint) from None
    return path


def _copy_file(path: Path, target: Path) -> None:
    try:
        source, made = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(target)
        try:
            source.backup(made)
            verdict = made.execute("PRAGMA quick_check(1)").fetchone()[0]
        finally:
            source.close()
            made.close()
    except sqlite3.Error as problem:
        raise StoreUnavailable(f"the backup failed: {problem}") from problem
    if verdict != "ok":
        raise UserError(f"the ledger {path} is damaged: {verdict}", hint="restore it from an older backup")


@contextmanager
def _written_whole(file: Path) -> Iterator[Path]:
    """A file beside ``file`` that takes its name only when it is complete and on the disk. Raises ``UserError``."""
    partial = file.with_name(file.name + ".partial")
    try:
        if file.exists():
            raise UserError(f"{file} already exists", hint="use another name: a backup is never overwritten")
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield partial
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, file)
    except OSError as problem:
        raise UserError(
            f"{file} cannot be written: {problem.strerror}", hint="use a file on a disk with free space"
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _text_file(path: Path, *, is_gzip: bool) -> IO[str]:
    return gzip.open(path, "wt", encoding="utf-8") if is_gzip else open(path, "w", encoding="utf-8")
