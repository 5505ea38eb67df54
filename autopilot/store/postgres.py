"""PostgreSQL: connections that are set for durability, and that no silent network can hold up for long."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, Pool

from autopilot.domain.errors import UserError, install_hint

# Regardless of the server's defaults: a commit is on disk before it is acknowledged, and a daemon that was stopped in
# the middle of a transaction releases its locks, so that another one can take the ledger over.
_SESSION = {
    "synchronous_commit": "on",
    "timezone": "UTC",
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "10s",
}
_ONE_SNAPSHOT = {"default_transaction_isolation": "repeatable read", "default_transaction_read_only": "on"}
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


def writer(url: URL, *, name: str = "autopilot") -> AsyncEngine:
    return _engine(url, name, _SESSION)


def reader(url: URL, *, name: str = "autopilot") -> AsyncEngine:
    """Each transaction sees one snapshot and writes nothing."""
    return _engine(url, name, _SESSION | _ONE_SNAPSHOT)


def lone(url: URL, *, name: str = "autopilot") -> AsyncEngine:
    """Each connection is new and its own, and every statement its own transaction: for a session that holds a lock."""
    session = _SESSION | {"idle_session_timeout": "0"}
    return _engine(url, name, session, poolclass=NullPool).execution_options(isolation_level="AUTOCOMMIT")


def _engine(url: URL, name: str, session: dict[str, str], poolclass: type[Pool] | None = None) -> AsyncEngine:
    patience = {key: value for key, value in _PATIENCE.items() if key not in url.query}
    try:
        engine = create_async_engine(
            url,
            connect_args=patience | {"application_name": name},
            poolclass=poolclass,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError as missing:
        raise UserError(
            f"a ledger on PostgreSQL needs the driver {missing.name}", hint=install_hint("postgres")
        ) from None

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for key, value in session.items():
            cursor.execute(f"SET {key} TO '{value}'")
        cursor.close()
        connection.commit()

    return engine
