"""One daemon per ledger: an exclusive lock on ``<database>.lock`` for as long as the daemon runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autopilot.domain.errors import UserError


@contextmanager
def single_writer(database: Path) -> Iterator[None]:
    """Hold the ledger at ``database`` alone; the kernel lets go when this process dies, however it dies.

    The lock file holds the pid for people and is never removed: removing it would let two daemons lock two files of
    one name. Raises ``UserError`` when another daemon holds the lock or the file cannot be opened.
    """
    path = database.with_name(database.name + ".lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"cannot open {path}: {error.strerror}", hint="check the directory and its owner") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise UserError(
                f"another autopilot daemon (pid {pid}) holds {database}",
                hint="stop it first, or point ledger.url at another file",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
