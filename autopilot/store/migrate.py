"""Bringing a database to this program's schema: a new one in one step, an older one migration by migration.

Alembic is imported only when there is something to migrate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from autopilot.domain.errors import UserError
from autopilot.store.schema import REVISION, metadata
from autopilot.store.triggers import create_triggers
from autopilot.store.views import create_views

if TYPE_CHECKING:
    from alembic.config import Config


def migrations_dir() -> Path:
    """In the installed package, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    for directory in (package / "migrations", package.parent / "migrations"):
        if (directory / "env.py").is_file():
            return directory
    raise FileNotFoundError("this installation of autopilot has no migrations")


def alembic_config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    return config


def current_revision(connection: Connection) -> str | None:
    """None: a database without a schema of ours."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def known_revisions() -> frozenset[str]:
    from alembic.script import ScriptDirectory

    return frozenset(script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions())


def check_revision(connection: Connection) -> None:
    """Raises ``UserError`` when the database is not of this program's schema."""
    found = current_revision(connection)
    if found != REVISION:
        raise UserError(
            f"the ledger's schema is {found or 'not there'}, this program's is {REVISION}",
            hint="autopilot db upgrade, or a newer autopilot",
        )


def upgrade(connection: Connection) -> None:
    """To ``REVISION``, within the connection's open transaction: an interrupted upgrade leaves nothing behind.

    Raises ``UserError`` when a newer program has written the database, or it is not a ledger at all.
    """
    found = current_revision(connection)
    if found == REVISION:
        return
    if found is None:
        _create(connection)
        return
    from alembic import command

    config = alembic_config()
    if found not in known_revisions():
        raise UserError(
            f"a newer autopilot has written this ledger (schema {found}, this one knows {REVISION})",
            hint="upgrade autopilot, or point ledger.url at another ledger",
        )
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        # Between two of its statements a slow machine may think for longer than a server lets anybody else.
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout TO 0"))
    command.upgrade(config, REVISION)


def _create(connection: Connection) -> None:
    """The newest schema at once. Raises ``UserError`` when the database holds tables of another program."""
    foreign = inspect(connection).get_table_names()
    if foreign:
        raise UserError(
            f"the database holds other tables ({', '.join(foreign[:3])}), not a ledger",
            hint="point ledger.url at a file or a database of its own",
        )
    metadata.create_all(connection, checkfirst=False)
    create_views(connection)
    create_triggers(connection)
    # As Alembic makes it, so that later migrations find it.
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
            " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": REVISION})
