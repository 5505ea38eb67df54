"""What stands beside the tables: views for reading spend by hand, and the triggers that keep the ledger append-only.

They hold no data, so they are not part of any migration: each upgrade drops the views first and makes the current
ones at its end. A changed view therefore needs a new revision, which may be empty.

Views give dollars. Months are UTC; reserves are not spend and appear nowhere here:

- ``spend_by_month(month, provider, compute_usd, storage_usd, bandwidth_usd, total_usd)``
- ``spend_by_job(job_id, job, status, leases, compute_usd, storage_usd, bandwidth_usd, total_usd)``
- ``spend_by_instance(provider, instance_id, lease_id, job_id, gpu, capacity_type, first_day, last_day,
  compute_usd, storage_usd, bandwidth_usd, total_usd)``
"""

from __future__ import annotations

from sqlalchemy import Connection

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import SPEND_TYPES


def _dollars(amount: str) -> str:
    # Whole nano-dollars are summed; only the finished sum is divided, and only for reading.
    return f"round(sum({amount}) / 1000000000.0, 9)"


def _dollars_for(kind: CostKind) -> str:
    return _dollars(f"CASE WHEN e.kind = '{kind}' THEN e.amount_nano ELSE 0 END")


_MONTH = "substr(CAST(e.day AS VARCHAR), 1, 7)"
_AMOUNTS = ", ".join(
    [*(f"{_dollars_for(kind)} AS {kind}_usd" for kind in CostKind), f"{_dollars('e.amount_nano')} AS total_usd"]
)
_IS_SPEND = "e.type IN ({})".format(", ".join(f"'{entry_type}'" for entry_type in SPEND_TYPES))

# Built of this module's own constants only.
VIEWS = {
    "spend_by_month": f"""
        SELECT {_MONTH} AS month, e.provider, {_AMOUNTS}
        FROM ledger_entries AS e
        WHERE {_IS_SPEND}
        GROUP BY {_MONTH}, e.provider
        ORDER BY {_MONTH}, e.provider""",  # noqa: S608
    "spend_by_job": f"""
        SELECT e.job_id, j.name AS job, j.status, count(DISTINCT e.lease_id) AS leases, {_AMOUNTS}
        FROM ledger_entries AS e LEFT JOIN jobs AS j ON j.id = e.job_id
        WHERE {_IS_SPEND}
        GROUP BY e.job_id, j.name, j.status, j.submitted_at
        ORDER BY j.submitted_at, e.job_id""",  # noqa: S608
    "spend_by_instance": f"""
        SELECT l.provider, l.instance_id, l.id AS lease_id, l.job_id, l.gpu, l.capacity_type,
            min(e.day) AS first_day, max(e.day) AS last_day, {_AMOUNTS}
        FROM ledger_entries AS e JOIN leases AS l ON l.id = e.lease_id
        WHERE {_IS_SPEND}
        GROUP BY l.provider, l.instance_id, l.id, l.job_id, l.gpu, l.capacity_type, l.intended_at
        ORDER BY l.intended_at, l.id""",  # noqa: S608
}

_REFUSAL = "ledger entries are append-only: post a correction instead"

# INSERT OR REPLACE fires no delete trigger on SQLite: the third one keeps the row that was there first.
_SQLITE_TRIGGERS = {
    "ledger_entries_refuse_update": f"BEFORE UPDATE ON ledger_entries BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    "ledger_entries_refuse_delete": f"BEFORE DELETE ON ledger_entries BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    "ledger_entries_keep_first": (
        "BEFORE INSERT ON ledger_entries WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE id = NEW.id)"
        " BEGIN SELECT RAISE(IGNORE); END"
    ),
}
_POSTGRES_TRIGGER = (
    "CREATE OR REPLACE FUNCTION ledger_entries_refuse() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$",
    "CREATE OR REPLACE TRIGGER ledger_entries_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries"
    " FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_refuse()",
)


def drop_views(connection: Connection) -> None:
    """Before a migration: a table cannot be altered beneath a view."""
    for name in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def create_views_and_triggers(connection: Connection) -> None:
    for name, query in VIEWS.items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")
    if connection.dialect.name == "sqlite":
        for name, body in _SQLITE_TRIGGERS.items():
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {body}")
    else:
        for statement in _POSTGRES_TRIGGER:
            connection.exec_driver_sql(statement)
