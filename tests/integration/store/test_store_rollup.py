"""The rollup equals the entries, says where it does not, and is made of a ledger that had none."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, create_engine

from autopilot.domain.instance import CostKind
from autopilot.store.database import SqlStore, open_store
from autopilot.store.migrate import alembic_config
from autopilot.store.rollup import RollupDrift, drift, rebuild
from autopilot.store.schema import REVISION
from tests.store_records import a_job, a_lease, an_entry, forgotten

NOV_1, NOV_2 = date(2026, 11, 1), date(2026, 11, 2)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    opened = await open_store(url)
    yield opened
    await opened.close()


async def drift_of(store: SqlStore) -> tuple[RollupDrift, ...]:
    async with store.connection() as connection:
        return await connection.run_sync(drift)


async def alter(store: SqlStore, statement: str) -> None:
    async with store.connection() as connection:
        await connection.exec_driver_sql(statement)


async def fill(store: SqlStore) -> None:
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(a_lease(),)))
        await work.ledger.post(
            [
                an_entry("r", "9", day=NOV_1, type="reserve"),
                an_entry("a", "1", day=NOV_1),
                an_entry("b", "2", day=NOV_1),
                an_entry("c", "-0.5", day=NOV_1, type="settle"),
                an_entry("d", "4", day=NOV_2, kind=CostKind.BANDWIDTH),
            ]
        )


async def test_it_equals_the_entries_however_they_were_posted(store: SqlStore) -> None:
    await fill(store)
    await fill(store)
    async with store.transaction() as work:
        await work.ledger.post(
            [an_entry("a", "100", day=NOV_2), an_entry("e", "8", day=NOV_2), an_entry("e", "8", day=NOV_2)]
        )
    async with forgotten(store) as work:
        await work.ledger.post([an_entry("never", "1", day=NOV_1)])
    assert await drift_of(store) == ()
    async with store.snapshot() as work:
        cells = {(cell.day, cell.kind): cell.amount for cell in (await work.reports.sum_spend(per="day")).cells}
    assert cells == {
        (NOV_1, CostKind.COMPUTE): Decimal("2.5"),
        (NOV_2, CostKind.BANDWIDTH): Decimal(4),
        (NOV_2, CostKind.COMPUTE): Decimal(8),
    }


async def test_a_sum_that_is_wrong_missing_or_too_much_is_told_and_mended(store: SqlStore) -> None:
    await fill(store)
    await alter(store, "UPDATE spend_daily SET amount_nano = 7 WHERE kind = 'compute'")
    await alter(store, "DELETE FROM spend_daily WHERE kind = 'bandwidth'")
    await alter(store, "INSERT INTO spend_daily VALUES ('2026-11-03', 'lease-1', 'compute', 5)")
    nano = Decimal("1e-9")
    assert await drift_of(store) == (
        RollupDrift(NOV_1, "lease-1", CostKind.COMPUTE, 7 * nano, Decimal("2.5")),
        RollupDrift(NOV_2, "lease-1", CostKind.BANDWIDTH, Decimal(0), Decimal(4)),
        RollupDrift(date(2026, 11, 3), "lease-1", CostKind.COMPUTE, 5 * nano, Decimal(0)),
    )
    async with store.connection() as connection:
        await connection.run_sync(rebuild)
    assert await drift_of(store) == ()


async def test_a_ledger_without_a_rollup_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:  # the columns in the order in which they came
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, REVISION)
    engine.dispose()
    store = await open_store(str(path))
    await fill(store)
    await store.close()
    rows = sqlite3.connect(path).execute("SELECT * FROM ledger_entries").fetchall()
    lease = sqlite3.connect(path).execute("SELECT * FROM leases").fetchall()
    old = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{old}")
    with engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        _insert(connection, "ledger_entries", rows)
        _insert(connection, "leases", lease)
        command.upgrade(config, "0003")
        assert drift(connection) == ()
        assert connection.exec_driver_sql("SELECT count(*) FROM spend_daily").scalar() == 2
    engine.dispose()


def _insert(connection: Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    columns = connection.exec_driver_sql(f"PRAGMA table_info({table})").fetchall()
    marks = ", ".join("?" * len(columns))
    for row in rows:
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", row[: len(columns)])
