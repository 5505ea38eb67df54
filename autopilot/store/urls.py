"""Where a ledger lies: the URLs that ``ledger.url`` may hold."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from autopilot.domain.errors import UserError

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg_async")


def database_path(url: str) -> Path:
    """The file behind a ledger URL. Raises ``UserError`` for anything but a file."""
    if "://" not in url:
        return Path(url).expanduser().absolute()
    parsed = _parse(url)
    is_file = parsed is not None and parsed.get_backend_name() == "sqlite" and not parsed.query
    if parsed is None or not is_file or parsed.database in (None, "", ":memory:"):
        raise UserError(
            f"not a ledger URL: {mask_password(url)}",
            hint="use a file, /var/lib/autopilot/ledger.db, or a server, postgresql://user@host/database",
        )
    return Path(str(parsed.database)).absolute()


def postgres_url(url: str) -> URL | None:
    """The database of a PostgreSQL server behind a ledger URL; None when it names a file. Raises ``UserError``."""
    parsed = _parse(url) if "://" in url else None
    if parsed is None or parsed.drivername not in _POSTGRES:
        return None
    if not parsed.database and "service" not in parsed.query:
        raise UserError(
            f"a ledger URL without a database: {mask_password(url)}", hint="write it as postgresql://user@host/database"
        )
    return parsed.set(drivername="postgresql+psycopg")


def mask_password(url: str) -> str:
    """For people and logs: without a password."""
    parsed = _parse(url) if "://" in url else None
    if parsed is None:
        return url if "@" not in url else url.rpartition("@")[2]
    return parsed.difference_update_query(["password"]).render_as_string(hide_password=True)


def _parse(url: str) -> URL | None:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        return None
