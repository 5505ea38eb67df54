"""A ledger of any earlier schema comes up to the newest with all that it holds, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, create_engine, insert, inspect, select, text

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.prices import PriceObservation
from autopilot.ports.store import BidRecord, EventRecord
from autopilot.store.database import open_store
from autopilot.store.health import examine
from autopilot.store.migrate import alembic_config
from autopilot.store.rollup import rebuild
from autopilot.store.rows import values_of
from autopilot.store.schema import (
    REVISION,
    bids,
    checkpoints,
    events,
    jobs,
    lease_spans,
    leases,
    ledger_entries,
    metadata,
    notes,
    price_observations,
)
from autopilot.store.urls import postgres_url
from tests.patience import PATIENCE_S
from tests.pg import PostgresServer
from tests.store_records import DAY, START, a_checkpoint, a_job, a_lease, an_entry

SCRIPTS = list(ScriptDirectory.from_config(alembic_config()).walk_revisions())[::-1]
OLDER = [script.revision for script in SCRIPTS[:-1]]
LATELY, EARLIER = (OLDER[0], OLDER[-2], OLDER[-1]), OLDER[1:-2]
LEASE = a_lease(instance_id="7").bill_as(InstanceStatus.RUNNING, Decimal("0.31"), Decimal("0.002"), START)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[str]:
    """No ledger yet."""
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.db")
        return
    name = postgres_server.new_database()
    yield postgres_server.url(name)
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def engine_url(url: str) -> Any:
    return postgres_url(url) or f"sqlite:///{url}"


def test_each_revision_follows_one_other() -> None:
    assert [script.revision for script in SCRIPTS] == [f"{number:04}" for number in range(1, len(SCRIPTS) + 1)]
    assert [script.down_revision for script in SCRIPTS] == [None, *OLDER]
    assert SCRIPTS[-1].revision == REVISION


@pytest.mark.parametrize("revision", [*LATELY, *(pytest.param(each, marks=pytest.mark.slow) for each in EARLIER)])
async def test_nothing_is_lost_on_the_way_from(revision: str, url: str) -> None:
    a_ledger_of(revision, url)
    store = await open_store(url)
    async with store.snapshot() as work:
        (job,) = await work.jobs.list_open()
        entries = await work.ledger.list_entries("lease-1")
        assert (await work.ledger.sum_totals(DAY)).month == Decimal("1.25")
        assert await work.bids.list_by_job("job-000001") == (a_bid(),)
        assert [event.name for event in await work.events.list_after()] == ["job.submitted"]
        assert await work.notes.get("install_id") == "abc"
        assert len(await work.prices.list_by_gpu("RTX 4090", START, START.replace(hour=23))) == 1
    await store.close()
    assert (job.id, job.spent, job.checkpoint) == ("job-000001", Decimal("1.25"), a_checkpoint(3))
    assert job.leases == (LEASE,)
    assert [(entry.id, entry.kind, entry.amount) for entry in entries] == [
        ("e1", CostKind.COMPUTE, Decimal(1)),
        ("e2", CostKind.STORAGE_RUNNING, Decimal("0.25")),
        ("lease-1:reserve:1", CostKind.COMPUTE, Decimal(9)),
        ("lease-1:reserve:2", CostKind.COMPUTE, Decimal(-9)),
    ]
    assert entries[-1].corrects == entries[-2].id
    assert [each for each in await examine(url) if each.ok is False] == []


async def test_the_migrated_schema_is_the_declared_one(url: str) -> None:
    a_ledger_of(OLDER[0], url)
    await (await open_store(url)).close()
    engine = create_engine(engine_url(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


@pytest.mark.slow
async def test_the_server_does_not_cut_off_a_slow_migration(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a_ledger_of(OLDER[-1], url)
    limits: list[str] = []
    upgrade = command.upgrade

    def look_and_upgrade(config: Config, revision: str) -> None:
        connection = config.attributes["connection"]
        if connection.dialect.name == "postgresql":
            limits.append(connection.scalar(text("SHOW idle_in_transaction_session_timeout")))
        upgrade(config, revision)

    monkeypatch.setattr(command, "upgrade", look_and_upgrade)
    store = await open_store(url)
    async with store.reading() as connection:
        if connection.dialect.name == "postgresql":
            limits.append(await connection.scalar(text("SHOW idle_in_transaction_session_timeout")))
    await store.close()
    assert limits in ([], ["0", "10s"]), "for that transaction alone"


@pytest.mark.parametrize("statement", [6, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 12))])
def test_a_migration_that_is_killed_leaves_the_old_ledger_and_is_made_good(url: str, statement: int) -> None:
    a_ledger_of(OLDER[0], url)
    program = """
import asyncio, os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from autopilot.store.database import open_store

left = int(sys.argv[2])

@event.listens_for(Engine, "after_cursor_execute")
def count(connection, cursor, statement, *rest):
    global left
    if statement.lstrip().upper().startswith(("ALTER", "CREATE", "UPDATE", "INSERT")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(open_store(sys.argv[1]))
"""
    done = subprocess.run([sys.executable, "-c", program, url, str(statement)], timeout=PATIENCE_S)
    assert done.returncode == -SIGKILL
    engine = create_engine(engine_url(url))
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == OLDER[0]
        assert not inspect(connection).has_table("leader")
    engine.dispose()

    async def upgrade() -> Decimal:
        store = await open_store(url)
        async with store.snapshot() as work:
            total = (await work.ledger.sum_totals(DAY)).month
        await store.close()
        return total

    assert asyncio.run(upgrade()) == Decimal("1.25")


@pytest.mark.slow
def test_a_kill_in_the_middle_leaves_a_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    test_a_migration_that_is_killed_leaves_the_old_ledger_and_is_made_good(str(path), 4)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def a_ledger_of(revision: str, url: str) -> None:
    """As the program of that revision left it: its tables, its append-only triggers, and rows of every kind."""
    engine = create_engine(engine_url(url))
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            for script in SCRIPTS[: OLDER.index(revision) + 1]:
                script.module.upgrade()
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
        job, lease = a_job(), LEASE
        write(connection, jobs, values_of(jobs, job, name="train"))
        write(connection, leases, values_of(leases, lease))
        write(connection, lease_spans, values_of(lease_spans, lease.spans[0], lease_id=lease.id, seq=0))
        write(connection, checkpoints, values_of(checkpoints, a_checkpoint(3)))
        write(connection, bids, values_of(bids, a_bid()))
        write(connection, events, values_of(events, EventRecord(START, "job.submitted", "job-000001", None)))
        write(connection, notes, {"key": "install_id", "value": "abc"})
        seen = PriceObservation("vastai", "m1", "RTX 4090", 1, Decimal("0.2"), None, START)
        write(connection, price_observations, values_of(price_observations, seen))
        disk = CostKind.STORAGE_RUNNING
        reserve, void = ("r", "v") if revision == "0001" else ("lease-1:reserve:1", "lease-1:reserve:2")
        for entry in (
            an_entry("e1", "1"),
            an_entry("e2", "0.25", kind=disk),
            an_entry(reserve, "9", type="reserve"),
            an_entry(void, "-9", type="void", corrects=reserve),
        ):
            write(connection, ledger_entries, values_of(ledger_entries, entry))
        if revision == "0001":
            connection.execute(text("UPDATE ledger_entries SET kind = 'storage' WHERE id = 'e2'"))
        if inspect(connection).has_table("spend_daily"):
            rebuild(connection)
        make_append_only(connection)
    engine.dispose()


RENAMED = {
    ("leases", "bid_nano"): "rate_nano",
    ("leases", "on_demand_price_nano"): "on_demand_rate_nano",
    ("lease_spans", "billed_rate_nano"): "rate_nano",
    ("price_observations", "on_demand_price_nano"): "on_demand_rate_nano",
}
"""Columns under the names that they had until revision 0006."""


def write(connection: Connection, table: Any, values: dict[str, Any]) -> None:
    """With the columns that there were then, under their names of then."""
    present = {column["name"] for column in inspect(connection).get_columns(table.name)}
    older = {column.name: RENAMED.get((table.name, column.name), column.name) for column in table.c}
    of_then = {older[column.name] if older[column.name] in present else column.name: column for column in table.c}
    written = {name: column for name, column in of_then.items() if name in present and column.key in values}
    then = Table(
        table.name, MetaData(), *(Column(name, column.type, key=column.key) for name, column in written.items())
    )
    connection.execute(insert(then).values({column.key: values[column.key] for column in written.values()}))
    assert connection.scalar(select(1).select_from(table).limit(1)) == 1


def make_append_only(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        for name, moment in (("update", "UPDATE"), ("delete", "DELETE")):
            connection.execute(
                text(
                    f"CREATE TRIGGER ledger_entries_refuse_{name} BEFORE {moment} ON ledger_entries"
                    " BEGIN SELECT RAISE(ABORT, 'append-only'); END"
                )
            )
        return
    connection.execute(
        text(
            "CREATE FUNCTION ledger_entries_refuse() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'append-only'; END $$"
        )
    )
    connection.execute(
        text(
            "CREATE TRIGGER ledger_entries_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries"
            " FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_refuse()"
        )
    )


def a_bid() -> BidRecord:
    return BidRecord("b1", "lease-1", START, Decimal("0.31"), "done", "d1")
