"""Views for reading spend by hand.

They hold no data, so they are not part of any migration: each upgrade drops the views first and makes the current
ones at its end. A changed view therefore needs a new revision, which may be empty.

Views give dollars; reserves are not spend and appear nowhere here. Months and days are UTC.

- ``spend_by_month(month, provider, …)``, ``spend_by_day(day, provider, …)``
- ``spend_by_job(job_id, job, status, owner, leases, …)``
- ``spend_by_gpu(month, gpu, capacity_type, leases, …)``
- ``spend_by_instance(provider, instance_id, lease_id, job_id, owner, gpu, capacity_type, first_day, last_day, …)``
- ``reconciliation(month, provider, instance_id, lease_id, estimate_usd, posted_usd, invoiced_usd)``: our own clock, all
  that is posted, and the newest figures that the market billed (NULL: it has billed nothing)

where … means ``compute_usd, storage_usd, bandwidth_usd, fees_usd, total_usd``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from autopilot.domain.cost_columns import COST_COLUMNS
from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import SPEND_TYPES, EntryType


def _dollars(amount: str) -> str:
    # Whole nano-dollars are summed; only the finished sum is divided, and only for reading.
    return f"round(sum({amount}) / 1000000000.0, 9)"


def _dollars_for(kinds: Sequence[CostKind]) -> str:
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    return _dollars(f"CASE WHEN d.kind IN ({listed}) THEN d.amount_nano ELSE 0 END")


def _month(day: str) -> str:
    return f"substr(CAST({day} AS VARCHAR), 1, 7)"


_AMOUNTS = ", ".join(
    [
        *(f"{_dollars_for(kinds)} AS {name}_usd" for name, _, kinds, _ in COST_COLUMNS),
        f"{_dollars('d.amount_nano')} AS total_usd",
    ]
)
_SPEND = "FROM spend_daily AS d JOIN leases AS l ON l.id = d.lease_id"
_IS_SPEND = "e.type IN ({})".format(", ".join(f"'{entry_type}'" for entry_type in SPEND_TYPES))

# Built of this module's own constants only.
VIEWS = {
    "spend_by_month": f"""
        SELECT {_month("d.day")} AS month, l.provider, {_AMOUNTS}
        {_SPEND}
        GROUP BY {_month("d.day")}, l.provider
        ORDER BY {_month("d.day")}, l.provider""",
    "spend_by_day": f"""
        SELECT d.day, l.provider, {_AMOUNTS}
        {_SPEND}
        GROUP BY d.day, l.provider
        ORDER BY d.day, l.provider""",
    "spend_by_job": f"""
        SELECT l.job_id, j.name AS job, j.status, j.owner, count(DISTINCT l.id) AS leases, {_AMOUNTS}
        {_SPEND} LEFT JOIN jobs AS j ON j.id = l.job_id
        GROUP BY l.job_id, j.name, j.status, j.owner, j.submitted_at
        ORDER BY j.submitted_at, l.job_id""",
    "spend_by_gpu": f"""
        SELECT {_month("d.day")} AS month, l.gpu, l.capacity_type, count(DISTINCT l.id) AS leases, {_AMOUNTS}
        {_SPEND}
        GROUP BY {_month("d.day")}, l.gpu, l.capacity_type
        ORDER BY {_month("d.day")}, l.gpu, l.capacity_type""",
    "spend_by_instance": f"""
        SELECT l.provider, l.instance_id, l.id AS lease_id, l.job_id, j.owner, l.gpu, l.capacity_type,
            min(d.day) AS first_day, max(d.day) AS last_day, {_AMOUNTS}
        {_SPEND} LEFT JOIN jobs AS j ON j.id = l.job_id
        GROUP BY l.provider, l.instance_id, l.id, l.job_id, j.owner, l.gpu, l.capacity_type, l.intended_at
        ORDER BY l.intended_at, l.id""",
    "reconciliation": f"""
        SELECT f.month, l.provider, l.instance_id, l.id AS lease_id,
            {_dollars("f.estimate_nano")} AS estimate_usd, {_dollars("f.posted_nano")} AS posted_usd,
            {_dollars("f.invoiced_nano")} AS invoiced_usd
        FROM (
            SELECT {_month("e.day")} AS month, e.lease_id, e.amount_nano AS posted_nano,
                CASE WHEN e.type = '{EntryType.ACCRUE}' THEN e.amount_nano ELSE 0 END AS estimate_nano,
                NULL AS invoiced_nano
            FROM ledger_entries AS e WHERE {_IS_SPEND}
            UNION ALL
            SELECT {_month("i.day")}, i.lease_id, 0, 0, i.amount_nano
            FROM invoice_lines AS i
            WHERE i.revision = (
                SELECT max(n.revision) FROM invoice_lines AS n
                WHERE n.lease_id = i.lease_id AND n.kind = i.kind AND n.day = i.day
            )
        ) AS f JOIN leases AS l ON l.id = f.lease_id
        GROUP BY f.month, l.provider, l.instance_id, l.id, l.intended_at
        ORDER BY f.month, l.intended_at, l.id""",  # noqa: S608
}


def drop_views(connection: Connection) -> None:
    """Before a migration: a table cannot be altered beneath a view."""
    for name in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def create_views(connection: Connection) -> None:
    for name, query in VIEWS.items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")
