"""Which database errors mean "not now" (``StoreUnavailable``) and which break a rule (``ConstraintViolated``).

All others are defects and pass unchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import exc

from autopilot.ports.store import CommitUnknown, ConstraintViolated, StoreUnavailable

_SQLITE_CAUSES = {
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
# By SQLSTATE or its class; the longest that fits counts.
_POSTGRES_CAUSES = {
    "08": "the connection is lost",
    "25006": "it is read-only",
    "25P03": "a transaction stood still for too long",
    "28": "the server refused the login",
    "3D000": "the server has no such database",
    "40": "another transaction was in the way",
    "42501": "permission denied",
    "53": "the server is out of resources",
    "53100": "the disk is full",
    "53300": "the server has no connection left",
    "55P03": "another process keeps it locked",
    "57": "the server stopped the statement",
    "57P01": "the server is shutting down",
    "57P02": "the server crashed",
    "57P03": "the server is starting up or shutting down",
    "58": "input/output error",
}
_CONNECTION_LOST = ("08", "57P")


@contextmanager
def report_as_unavailable() -> Iterator[None]:
    try:
        yield
    except exc.IntegrityError as error:
        raise ConstraintViolated(_text(error)) from error
    except exc.DBAPIError as error:
        cause = _cause(error)
        if cause is None:
            raise
        raise StoreUnavailable(f"the ledger's database is unavailable: {cause}") from error
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"the ledger's database is unavailable: {error}") from error


@dataclass
class Commit:
    """``has_begun`` is set as the last thing in the block of a transaction."""

    has_begun: bool = False


@contextmanager
def report_at_commit() -> Iterator[Commit]:
    """A connection that breaks while the server commits leaves both possible."""
    commit = Commit()
    try:
        yield commit
    except exc.OperationalError as error:
        state = getattr(error.orig, "sqlstate", None) or ""
        is_lost = not isinstance(error.orig, sqlite3.Error) and (not state or state.startswith(_CONNECTION_LOST))
        if not (commit.has_begun and is_lost):
            raise
        raise CommitUnknown(
            "the ledger's database is unavailable: the connection was lost during a commit,"
            f" whose outcome is unknown ({_text(error)})"
        ) from error


def _cause(error: exc.DBAPIError) -> str | None:
    """None: a defect."""
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorname", "")
        known = next((text for prefix, text in _SQLITE_CAUSES.items() if code.startswith(prefix)), None)
    else:
        state = getattr(error.orig, "sqlstate", None) or ""
        known = next((_POSTGRES_CAUSES[state[:n]] for n in (5, 2) if state[:n] in _POSTGRES_CAUSES), None)
        if known is not None:
            return f"{known} ({_text(error)})"
    # Of its kin only these say that the database is at fault; the plain class is a damaged or foreign file.
    at_fault = isinstance(error, exc.OperationalError | exc.InterfaceError) or type(error) is exc.DatabaseError
    return known or _text(error) if known or at_fault else None


def _text(error: exc.DBAPIError) -> str:
    """The driver's own first line."""
    return next(iter(str(error.orig).strip().splitlines()), type(error.orig).__name__)
