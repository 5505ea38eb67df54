"""Is the ledger's database whole? Reads only, so that it can be asked while the daemon works."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, inspect, text

from autopilot.ports.store import StoreUnavailable
from autopilot.store.database import SqlStore, unopened_store
from autopilot.store.migrate import current_revision, known_revisions
from autopilot.store.rollup import drift
from autopilot.store.schema import REVISION, metadata
from autopilot.store.triggers import TRIGGERS
from autopilot.store.urls import database_path, mask_password, postgres_url
from autopilot.store.views import VIEWS

_RESTORE = "restore it from a backup"
_MUST_BE_ON = ("fsync", "full_page_writes")


@dataclass(frozen=True, slots=True)
class Finding:
    """``ok`` None: nothing is wrong, but something is to be done or cannot be said."""

    name: str
    ok: bool | None
    detail: str
    hint: str = ""


async def examine(url: str) -> list[Finding]:
    """Everything that can be checked without writing; the first failure may end it. Raises ``UserError``: a bad URL."""
    if postgres_url(url) is None:
        try:
            database_path(url).stat()
        except FileNotFoundError:
            return [Finding("database", None, f"{mask_password(url)} will be made at the first start")]
        except OSError as problem:
            return [
                Finding(
                    "database",
                    False,
                    f"{mask_password(url)}: {problem.strerror}",
                    "run it as the daemon's user, or with sudo",
                )
            ]
    store = unopened_store(url)
    try:
        async with store.reading() as connection:
            return await connection.run_sync(_examine, mask_password(url))
    except StoreUnavailable as problem:
        return [
            Finding("database", False, f"{mask_password(url)}: {problem}", "check the address, the rights and the disk")
        ]
    finally:
        await store.close()


async def is_current(store: SqlStore) -> bool:
    """Whether the ledger is there and has this version's tables. Reads only. Raises ``StoreUnavailable``."""
    async with store.reading() as connection:
        return await connection.run_sync(current_revision) == REVISION


def _examine(connection: Connection, place: str) -> list[Finding]:
    is_file = connection.dialect.name == "sqlite"
    whole = _file(connection, place) if is_file else _server(connection, place)
    schema = _schema(connection)
    findings = [whole, schema]
    if whole.ok is False or schema.ok is not True:
        return findings
    return [*findings, _objects(connection), *([_references(connection)] if is_file else []), _sums(connection)]


def _file(connection: Connection, place: str) -> Finding:
    verdict = str(connection.scalar(text("PRAGMA quick_check(1)")))
    return Finding("database", verdict == "ok", f"{place}: {verdict}", _RESTORE)


def _server(connection: Connection, place: str) -> Finding:
    version = connection.scalar(text("SHOW server_version"))
    off = [name for name in _MUST_BE_ON if connection.scalar(text(f"SHOW {name}")) != "on"]
    if off:
        hint = "a crash of the server may lose what was committed, or all of it: turn it on"
        return Finding("database", None, f"{place}: PostgreSQL {version} with {' and '.join(off)} off", hint)
    return Finding("database", True, f"{place}: PostgreSQL {version}")


def _schema(connection: Connection) -> Finding:
    found = current_revision(connection)
    if found == REVISION:
        return Finding("schema", True, f"revision {found}")
    if found is None:
        return Finding("schema", None, "none yet", "autopilot db upgrade, or the daemon's first start, makes it")
    if found not in known_revisions():
        return Finding("schema", False, f"revision {found} of a newer autopilot; this one knows {REVISION}", "upgrade")
    return Finding("schema", None, f"revision {found}, {REVISION} is the newest", "autopilot db upgrade")


def _objects(connection: Connection) -> Finding:
    """Tables, views and the triggers that keep the ledger append-only."""
    seen = inspect(connection)
    triggers = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.dialect.name == "sqlite"
        else "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
    )
    present = {*seen.get_table_names(), *seen.get_view_names(), *connection.scalars(text(triggers))}
    expected = {*metadata.tables, *VIEWS, *TRIGGERS[connection.dialect.name]}
    missing = sorted(expected - present)
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(expected)} tables, views and triggers"
    return Finding("objects", not missing, detail, _RESTORE)


def _references(connection: Connection) -> Finding:
    broken = len(connection.execute(text("PRAGMA foreign_key_check")).all())
    return Finding("references", not broken, f"{broken} rows name what is not there" if broken else "whole", _RESTORE)


def _sums(connection: Connection) -> Finding:
    wrong = drift(connection, limit=5)
    if not wrong:
        return Finding("sums", True, "daily sums are those of the entries")
    first = wrong[0]
    detail = f"{first.day} {first.kind} of lease {first.lease_id}: {first.rolled_up} rolled up, {first.posted} posted"
    return Finding("sums", False, detail, "run autopilot db upgrade to recompute the sums from the entries")
