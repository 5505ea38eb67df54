"""Every row of a ledger read out, and copied into another database, with proof that nothing was lost or changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Table, func, insert, select, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.domain.errors import UserError
from autopilot.store.schema import leader, metadata

BATCH_ROWS = 1000
_PLAIN = sqlite.dialect()
_MODULUS = 1 << 256

TABLES: tuple[Table, ...] = tuple(table for table in metadata.sorted_tables if table is not leader)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Fingerprint of a table's rows in any order: equal only if all rows are."""

    table: str
    rows: int
    digest: str


class _Sum:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._plain = plain_row(table)
        self._rows = 0
        self._sum = 0

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            written = json.dumps(self._plain(row), ensure_ascii=False)
            digest = hashlib.sha256(written.replace("\\u0000", "\ufffd").encode()).digest()
            self._sum = (self._sum + int.from_bytes(digest)) % _MODULUS
        self._rows += len(rows)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self._table.name, self._rows, f"{self._sum:064x}")


def plain_row(table: Table) -> Callable[[Sequence[Any]], list[Any]]:
    """From a row of ``select(table)`` to numbers, texts and JSON, the same from every database."""
    kinds = [getattr(column.type, "impl_instance", column.type) for column in table.c]
    writers = [
        (column.type.dialect_impl(_PLAIN).bind_processor(_PLAIN), isinstance(kind, JSON))
        for column, kind in zip(table.c, kinds, strict=True)
    ]

    def plain(row: Sequence[Any]) -> list[Any]:
        values = []
        for (write, is_json), value in zip(writers, row, strict=True):
            written = value if value is None or write is None else write(value)
            values.append(json.loads(written) if is_json and written is not None else written)
        return values

    return plain


async def batches(connection: AsyncConnection, table: Table) -> AsyncIterator[Sequence[Sequence[Any]]]:
    """All rows, in the order of the primary key."""
    chosen = select(table).order_by(*table.primary_key.columns)
    async with connection.stream(chosen, execution_options={"yield_per": BATCH_ROWS}) as rows:
        async for batch in rows.partitions():
            yield batch


async def fingerprints(connection: AsyncConnection) -> list[Fingerprint]:
    found = []
    for table in TABLES:
        made = _Sum(table)
        async for batch in batches(connection, table):
            made.add(batch)
        found.append(made.fingerprint())
    return found


async def copy(source: AsyncConnection, target: AsyncConnection) -> list[Fingerprint]:
    """Copy every row into the empty ``target``, then read them back. The caller commits.

    Raises ``UserError`` when the target holds rows already, or does not give back what was written.
    """
    for connection in (source, target):
        await _allow_idling(connection)
    for table in TABLES:
        if (await target.execute(select(table).limit(1))).first() is not None:
            raise UserError(f"the target is not empty: there are rows in {table.name}", hint="use an empty database")
    written = []
    for table in TABLES:
        made = _Sum(table)
        async for batch in batches(source, table):
            made.add(batch)
            keys = table.c.keys()
            await target.execute(insert(table), [dict(zip(keys, row, strict=True)) for row in batch])
        written.append(made.fingerprint())
    await _carry_on_counting(target)
    for expected, found in zip(written, await fingerprints(target), strict=True):
        if expected != found:
            raise UserError(
                f"the copy of {expected.table} differs: {expected.rows} rows written, {found.rows} read back",
                hint="the target was left empty; the source is unchanged",
            )
    return written


async def _allow_idling(connection: AsyncConnection) -> None:
    """For this transaction alone: one side has nothing to do while the other is read or written, however long."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout TO 0"))


async def _carry_on_counting(target: AsyncConnection) -> None:
    """PostgreSQL's sequences do not look at what was inserted."""
    if target.dialect.name != "postgresql":
        return
    for table in TABLES:
        column = table.autoincrement_column
        if column is not None:
            newest = (await target.execute(select(func.max(column)))).scalar()
            if newest is not None:
                sequence = text("SELECT setval(pg_get_serial_sequence(:table, :column), :newest)")
                await target.execute(sequence, {"table": table.name, "column": column.name, "newest": newest})
