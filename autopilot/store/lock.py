"""One daemon per ledger: exclusive locks on ``<database>.lock`` and on the database itself, for as long as it runs.

The first is by name, and tells people the process. The second is by file, so it is met under any other name: of a link,
of a mount, or after a change of name.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from autopilot.domain.errors import OtherDaemonError, UserError
from autopilot.system import IS_MACOS, pack_file_lock

_OURS = 1 << 62
"""The byte of the database that is locked. SQLite locks others of it, at 2^30, and none is ever written so far out."""


@contextmanager
def single_writer(database: Path) -> Iterator[None]:
    """Hold the ledger at ``database`` alone; the kernel lets go when this process dies, however it dies.

    What this process has open of the ledger must be closed before: SQLite's locks end with ours. Raises ``UserError``
    when another daemon holds a lock, when a file cannot be opened, and for a ledger of several names.
    """
    database = database.resolve()
    with _holding_name(database), _holding_file(database):
        yield


@contextmanager
def _holding_name(database: Path) -> Iterator[None]:
    """The lock file holds the pid for people and is never removed: removing it would let two daemons lock two files of
    one name."""
    path = database.with_name(database.name + ".lock")
    with _open(path, os.O_RDWR) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise _held(database, f"another autopilot daemon (pid {pid})") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


@contextmanager
def _holding_file(database: Path) -> Iterator[None]:
    with _open(database, os.O_RDWR) as descriptor:
        if (names := os.fstat(descriptor).st_nlink) > 1:
            # SQLite keeps what was committed last beside the name by which it was opened: under another name that is
            # missing, and with it what was rented last.
            raise UserError(
                f"the ledger {database} has {names} names (hard links), so what was written last may be beside another",
                hint=f"find / -samefile {database} finds the others; keep the one with the newest -wal beside it",
            )
        _lock_byte(descriptor, database)
        yield


def _lock_byte(descriptor: int, database: Path) -> None:
    """Lock for this opening: no other close of the file in this process, by SQLite or others, releases it."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, pack_file_lock(fcntl.F_WRLCK, _OURS, 1))
    except (BlockingIOError, PermissionError):
        raise _held(database, _read_holder(database)) from None
    except OSError:
        if not IS_MACOS:  # which may know no such lock: the one by name is all there is then
            raise


@contextmanager
def _open(path: Path, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"cannot open {path}: {error.strerror}", hint="check the directory and its owner") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _held(database: Path, by: str) -> OtherDaemonError:
    return OtherDaemonError(f"{by} holds {database}", hint="stop it first, or point ledger.url at another file")


def _read_holder(database: Path) -> str:
    """Who leads, as the ledger says; ignores files beside it under this name."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            row = connection.execute("SELECT holder FROM leader WHERE id = 1 AND renewed_at IS NOT NULL").fetchone()
    except sqlite3.Error:
        row = None
    return f"{row[0]}, under another name of the file," if row else "another autopilot daemon, under another name,"
