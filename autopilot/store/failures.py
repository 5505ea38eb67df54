"""Which database errors mean "not now" (``StoreUnavailable``); all others are defects and pass unchanged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from autopilot.ports.store import StoreUnavailable

_CAUSES = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the file is read-only",
    "SQLITE_PERM": "permission denied",
    "SQLITE_BUSY": "another process keeps it locked",
    "SQLITE_LOCKED": "another process keeps it locked",
    "SQLITE_CANTOPEN": "the file cannot be opened",
    "SQLITE_IOERR": "input/output error",
    "SQLITE_NOTADB": "the file is not a SQLite database",
    "SQLITE_CORRUPT": "the file is damaged",
}


@contextmanager
def reported_as_unavailable() -> Iterator[None]:
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError) as error:
        raise _unavailable(error.orig) from error
    except exc.TimeoutError as error:
        raise _unavailable(error) from error
    except exc.DatabaseError as error:
        # Its subclasses (constraint, syntax, type) are defects; the class itself is a damaged or foreign file.
        if type(error) is not exc.DatabaseError:
            raise
        raise _unavailable(error.orig) from error


def _unavailable(cause: BaseException | None) -> StoreUnavailable:
    code = cause.sqlite_errorname if isinstance(cause, sqlite3.Error) and hasattr(cause, "sqlite_errorname") else ""
    known = next((text for prefix, text in _CAUSES.items() if code.startswith(prefix)), None)
    return StoreUnavailable(f"the ledger's database is unavailable: {known or cause}")
