"""One word for one thing: bids, billed rates and on-demand prices, in columns, decisions and events."""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

COLUMNS = (
    ("leases", "rate_nano", "bid_nano"),
    ("leases", "on_demand_rate_nano", "on_demand_price_nano"),
    ("lease_spans", "rate_nano", "billed_rate_nano"),
    ("price_observations", "on_demand_rate_nano", "on_demand_price_nano"),
)
TOPICS = {"way": "option", "standing": "status"}
NAMES = {
    "rate": "bid",
    "on_demand_rate": "on_demand_price",
    "way": "option",
    "standing": "current_bid",
    "unseen_s": "unobserved_s",
}
"""Of numbers in events and in decisions, for every topic …"""
VETO_NAMES = {"over_rate_limit": {"rate": "burn"}}
"""… but for those of a veto, by its reason: there it is what all machines burn."""
OPTIONS = {"lower": "reduce_bid"}
"""Names of options in decisions."""
ROWS_AT_ONCE = 500

Pairs = list[list[Any]]


def upgrade() -> None:
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    _rewrite("events", {"fields": _renamed_numbers})
    _rewrite("decisions", {"actions": _renamed_notes, "vetoes": _renamed_notes, "notes": _renamed_notes})


def _renamed_numbers(numbers: Pairs) -> Pairs:
    return [[NAMES.get(name, name), value] for name, value in numbers]


def _renamed_notes(notes: Pairs) -> Pairs:
    return [[TOPICS.get(topic, topic), _renamed_note(topic, numbers)] for topic, numbers in notes]


def _renamed_note(topic: str, numbers: Pairs) -> Pairs:
    names = NAMES | VETO_NAMES.get(dict(numbers).get("because"), {}) if topic == "veto" else NAMES
    if topic == "way":
        numbers = [[name, OPTIONS.get(value, value) if name == "way" else value] for name, value in numbers]
    return [[names.get(name, name), value] for name, value in numbers]


def _rewrite(name: str, columns: dict[str, Callable[[Pairs], Pairs]]) -> None:
    """Read a table by its key, so many rows at once, and write back the rows that change."""
    table = sa.table(name, sa.column("seq", sa.BigInteger), *(sa.column(column, sa.JSON) for column in columns))
    connection = op.get_bind()
    newest = -1
    while rows := connection.execute(
        sa.select(table).where(table.c.seq > newest).order_by(table.c.seq).limit(ROWS_AT_ONCE)
    ).all():
        newest = rows[-1].seq
        for row in rows:
            kept = {column: _loaded(getattr(row, column)) for column in columns}
            changed = {column: rename(kept[column]) for column, rename in columns.items()}
            if changed != kept:
                connection.execute(table.update().where(table.c.seq == row.seq).values(changed))


def _loaded(value: Any) -> Pairs:
    return json.loads(value) if isinstance(value, str) else value
