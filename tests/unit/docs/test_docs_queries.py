"""Every query of the page about SQL runs unchanged on SQLite and on PostgreSQL, and finds something there."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.ledger import InvoiceLine
from autopilot.domain.prices import PriceObservation
from autopilot.domain.readings import MachineReading
from autopilot.domain.reasons import Reason
from autopilot.ports.store import BidRecord
from autopilot.store.database import open_store
from autopilot.store.views import VIEWS
from tests.store_records import START, a_job, a_lease, an_entry

PAGE = (Path(__file__).parents[3] / "docs/how-to/query-the-ledger.md").read_text()
QUERIES = re.findall(r"\n([^\n]+)\n\n```sql\n(.*?)```", PAGE, re.DOTALL)
FINDS_NOTHING = "Are all sums correct?"
Rows = Callable[[str], Sequence[Sequence[Any]]]


async def fill(url: str) -> None:
    """A little of everything, on the days about today."""
    lease = a_lease(state=LeaseState.GONE, instance_id="7001", reason=Reason.OUTBID)
    lease = lease.bill_as(InstanceStatus.RUNNING, Decimal("0.3"), Decimal("0.01"), START).stop_billing(START)
    today = datetime.now(UTC).date()
    store = await open_store(url)
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(lease,)))
        await work.ledger.post(
            [
                *(an_entry(f"a{n}", "1.5", day=today + timedelta(days=n), lease=lease) for n in (-1, 0, 1)),
                an_entry("r", "2", day=today, lease=lease, type="reserve"),
                an_entry("s", "0.2", day=today, lease=lease, kind=CostKind.STORAGE_STOPPED),
                an_entry("c", "0.1", day=today, lease=lease, type="adjust", corrects="a0"),
            ]
        )
        line = InvoiceLine(
            "i", "vastai", "7001", lease.id, CostKind.COMPUTE, today, Decimal("1.6"), revision=1, seen_at=START
        )
        await work.invoices.add([line])
        await work.machine_readings.add([MachineReading(lease.id, START, 0.97, 0.875, 12 * 10**9, 3.1, None)])
        await work.bids.save(BidRecord("b", lease.id, START, Decimal("0.31"), "done", None))
        await work.prices.add([PriceObservation("vastai", "m", "RTX 4090", 1, Decimal("0.2"), None, START)])
    await store.close()


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries") / "ledger.db"
    asyncio.run(fill(str(path)))
    return path


@pytest.fixture
def on_sqlite(filled_sqlite: Path) -> Rows:
    def rows(statement: str) -> Sequence[Sequence[Any]]:
        with closing(sqlite3.connect(f"file:{filled_sqlite}?mode=ro", uri=True)) as database:
            return database.execute(statement).fetchall()

    return rows


@pytest.fixture
def on_postgres(postgres_url: str) -> Rows:
    asyncio.run(fill(postgres_url))

    def rows(statement: str) -> Sequence[Sequence[Any]]:
        with psycopg.connect(postgres_url) as database:
            database.execute("SET default_transaction_read_only = on")
            return database.execute(statement).fetchall()

    return rows


def check(question: str, rows: Sequence[Sequence[Any]]) -> None:
    if question.startswith(FINDS_NOTHING):
        assert rows == []
    else:
        assert rows, question


def test_there_are_a_dozen_and_all_are_read() -> None:
    assert len(QUERIES) >= 12
    assert len(QUERIES) == PAGE.count("```sql")
    assert sum(question.startswith(FINDS_NOTHING) for question, _ in QUERIES) == 1


@pytest.mark.parametrize(("question", "query"), QUERIES)
def test_a_query_on_sqlite(on_sqlite: Rows, question: str, query: str) -> None:
    check(question, on_sqlite(query))


def test_all_queries_on_postgres(on_postgres: Rows) -> None:
    for question, query in QUERIES:
        check(question, on_postgres(query))


def test_the_shells_queries(on_sqlite: Rows, on_postgres: Rows) -> None:
    found = re.findall(r"(?:ledger\.db|-c) '(select [^']+)'", PAGE)
    assert len(found) == 2
    for query in found:
        assert on_sqlite(query)
        assert on_postgres(query)


def test_every_view_is_told_of_and_has_the_same_columns_everywhere(on_sqlite: Rows, on_postgres: Rows) -> None:
    table = PAGE.split("## What is where")[1].split("Views give dollars")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(VIEWS)
    for name in VIEWS:
        ours, theirs = on_sqlite(f"SELECT * FROM {name}"), on_postgres(f"SELECT * FROM {name}")
        assert [len(row) for row in ours] == [len(row) for row in theirs]
        assert [_plain(row) for row in ours] == [_plain(row) for row in theirs]


def _plain(row: Sequence[Any]) -> list[Any]:
    return [round(float(cell), 6) if isinstance(cell, float | Decimal) else str(cell) for cell in row]
