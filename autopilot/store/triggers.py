"""The triggers that keep what was posted or billed from ever being changed, by this program or by any other.

They hold no data, so they are not part of any migration: each upgrade makes the current ones at its end.
"""

from __future__ import annotations

from sqlalchemy import Connection

APPEND_ONLY = {
    "ledger_entries": "ledger entries are append-only: post a correction instead",
    "invoice_lines": "lines of an invoice are append-only: a new figure is a new line",
}

# INSERT OR REPLACE fires no delete trigger on SQLite: the third one keeps the row that was there first.
_SQLITE = {
    "refuse_update": "BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{refusal}'); END",
    "refuse_delete": "BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{refusal}'); END",
    "keep_first": (
        "BEFORE INSERT ON {table} WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) BEGIN SELECT RAISE(IGNORE); END"
    ),
}

TRIGGERS = {
    "sqlite": tuple(f"{table}_{name}" for table in APPEND_ONLY for name in _SQLITE),
    "postgresql": tuple(f"{table}_refuse" for table in APPEND_ONLY),
}
"""Their names, by dialect."""


def create_triggers(connection: Connection) -> None:
    for table, refusal in APPEND_ONLY.items():
        if connection.dialect.name == "sqlite":
            _create_on_sqlite(connection, table, refusal)
        else:
            _create_on_postgres(connection, table, refusal)


def _create_on_sqlite(connection: Connection, table: str, refusal: str) -> None:
    for name, body in _SQLITE.items():
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table}_{name}")
        connection.exec_driver_sql(f"CREATE TRIGGER {table}_{name} {body.format(table=table, refusal=refusal)}")


def _create_on_postgres(connection: Connection, table: str, refusal: str) -> None:
    connection.exec_driver_sql(
        f"CREATE OR REPLACE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{refusal}' USING ERRCODE = 'restrict_violation'; END $$"
    )
    connection.exec_driver_sql(
        f"CREATE OR REPLACE TRIGGER {table}_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    )
