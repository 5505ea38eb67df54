"""A new ledger is made in one step. It is the one that the migrations make, on SQLite and on PostgreSQL.

Defaults of columns are left out: a migration gives them to the rows that are there, and every write of the program
names all columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text

from autopilot.store.migrate import alembic_config, upgrade
from autopilot.store.schema import REVISION, leader, metadata
from autopilot.store.urls import postgres_url
from tests.pg import PostgresServer

_POSTGRES = {
    "constraints": "SELECT conrelid::regclass::text || ' ' || conname, pg_get_constraintdef(oid), condeferrable,"
    " condeferred FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
    " AND contype <> 'n'",  # is_nullable shows them; renamed columns keep the constraint's old name
    "functions": "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "columns": "SELECT table_name || '.' || column_name, data_type, is_nullable, is_identity"
    " FROM information_schema.columns WHERE table_schema = 'public'",
}
_SQLITE = {
    "objects": "SELECT name, type, tbl_name, CASE type WHEN 'table' THEN sql LIKE '%WITHOUT ROWID%' ELSE sql END"
    " FROM sqlite_master",
    "columns": "SELECT m.name || '.' || c.name, c.type, c.\"notnull\", c.pk, c.hidden"
    " FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c",
    "references": 'SELECT m.name || \'.\' || f."from", f."table", f."to", f.on_update, f.on_delete'
    " FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def engines(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[list[Engine]]:
    """Two empty databases."""
    names: list[str] = []
    if request.param == "sqlite":
        urls: list[Any] = [f"sqlite:///{tmp_path / name}" for name in ("new.db", "migrated.db")]
    else:
        names = [postgres_server.new_database() for _ in range(2)]
        urls = [postgres_url(postgres_server.url(name)) for name in names]
    made = [create_engine(url) for url in urls]
    yield made
    for engine in made:
        engine.dispose()
    for name in names:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_it_equals_what_all_migrations_make(engines: list[Engine]) -> None:
    new, migrated = engines
    _upgrade(new)
    with migrated.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, REVISION)
    with new.connect() as left, migrated.connect() as right:
        found, wanted = _described(left), _described(right)
        for kind in wanted:
            assert found[kind] == wanted[kind], kind
        assert {"ledger_entries", "invoice_lines", "leader"} <= set(inspect(left).get_table_names())
        assert _rows(left) == _rows(right) == {"alembic_version": 1}
        assert left.scalar(text("SELECT version_num FROM alembic_version")) == REVISION


def test_an_interrupted_one_leaves_nothing(engines: list[Engine]) -> None:
    engine = engines[0]

    def break_off(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("CREATE VIEW"):
            raise RuntimeError("killed")

    event.listen(engine, "before_cursor_execute", break_off)
    with pytest.raises(RuntimeError, match="killed"):
        _upgrade(engine)
    event.remove(engine, "before_cursor_execute", break_off)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    _upgrade(engine)
    with engine.connect() as connection:
        assert inspect(connection).has_table(leader.name)


def _upgrade(engine: Engine) -> None:
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")  # the product's connections do so by themselves
        upgrade(connection)


def _described(connection: Connection) -> dict[str, dict[str, tuple[Any, ...]]]:
    queries = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES
    return {kind: {row[0]: _plain(row) for row in connection.execute(text(sql))} for kind, sql in queries.items()}


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(" ".join(value.replace('"', "").split()) if isinstance(value, str) else value for value in row)


def _rows(connection: Connection) -> dict[str, int]:
    """By table, of those that hold any."""
    counted = {
        name: connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0
        for name in (*metadata.tables, "alembic_version")
    }
    return {name: count for name, count in counted.items() if count}
