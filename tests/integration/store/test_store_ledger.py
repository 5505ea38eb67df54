"""Posting, the sums over it, the views, and that nothing posted can ever change."""

from __future__ import annotations

import sqlite3
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot.domain.cost_columns import COST_NAMES
from autopilot.domain.instance import CostKind
from autopilot.domain.lease import LeaseState
from autopilot.domain.money import from_nano
from autopilot.ports.store import ConstraintViolated, Totals
from autopilot.store.database import SqlStore
from autopilot.store.views import VIEWS
from tests.store_records import DAY, START, a_job, a_lease, an_entry, forgotten

OCT_31, NOV_1, NOV_30, DEC_1 = date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 30), date(2026, 12, 1)


@pytest.fixture
async def posted(store: SqlStore) -> SqlStore:
    """Two jobs and a orphan on two markets, around two month boundaries."""
    first = a_lease("lease-1", state=LeaseState.GONE, instance_id="7001")
    second = a_lease("lease-2", state=LeaseState.GONE, instance_id="7002", gpu="H100")
    other = a_lease("lease-3", "job-000002", provider="runpod", intended_at=START)
    orphan = a_lease("lease-4", None, instance_id="7004")
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(first, second)))
        await work.jobs.save(a_job("job-000002", name="other", leases=(other,), submitted_at=START.replace(hour=10)))
        await work.leases.save(orphan)
        await work.ledger.post(
            [
                an_entry("r1", "50", day=NOV_1, lease=first, type="reserve"),
                an_entry("v1", "-50", day=NOV_1, lease=first, type="void", corrects="r1"),
                an_entry("a1", "1", day=OCT_31, lease=first),
                an_entry("a2", "2", day=NOV_1, lease=first),
                an_entry("a3", "0.25", day=NOV_1, lease=first, kind=CostKind.STORAGE_RUNNING),
                an_entry("s1", "-0.000000001", day=NOV_1, lease=first, type="settle"),
                an_entry("a4", "4", day=NOV_30, lease=second),
                an_entry("a5", "8", day=DEC_1, lease=other),
                an_entry("d1", "0.5", day=DEC_1, lease=other, type="adjust", kind=CostKind.BANDWIDTH),
                an_entry("a6", "16", day=DEC_1, lease=orphan),
            ]
        )
    return store


async def test_an_id_is_posted_once(posted: SqlStore) -> None:
    async with posted.transaction() as work:
        again = [an_entry("a1", "999"), an_entry("new", "3"), an_entry("a2", "999")]
        assert await work.ledger.post(again) == 1
        assert await work.ledger.post(again) == 0
        assert await work.ledger.post([]) == 0
    async with posted.snapshot() as work:
        amounts = {entry.id: entry.amount for entry in await work.ledger.list_entries("lease-1")}
    assert (amounts["a1"], amounts["a2"], amounts["new"]) == (Decimal(1), Decimal(2), Decimal(3))


async def test_posted_by_lease_kind_and_day(posted: SqlStore) -> None:
    async with posted.snapshot() as work:
        sums = await work.ledger.sum_by_day(["lease-1", "lease-3", "unknown"])
        assert await work.ledger.sum_by_day([]) == {}
    assert sums == {
        "lease-1": {
            (CostKind.COMPUTE, OCT_31): Decimal(1),
            (CostKind.COMPUTE, NOV_1): Decimal("1.999999999"),
            (CostKind.STORAGE_RUNNING, NOV_1): Decimal("0.25"),
        },
        "lease-3": {(CostKind.COMPUTE, DEC_1): Decimal(8), (CostKind.BANDWIDTH, DEC_1): Decimal("0.5")},
        "unknown": {},
    }


@pytest.mark.parametrize(
    ("day", "on_day", "in_month"),
    [
        (OCT_31, "1", "1"),
        (NOV_1, "2.249999999", "6.249999999"),
        (date(2026, 11, 15), "0", "6.249999999"),
        (NOV_30, "4", "6.249999999"),
        (DEC_1, "24.5", "24.5"),
        (date(2026, 12, 31), "0", "24.5"),
        (date(2027, 1, 1), "0", "0"),
    ],
)
async def test_totals_of_a_day_and_of_its_month(posted: SqlStore, day: date, on_day: str, in_month: str) -> None:
    async with posted.snapshot() as work:
        totals = await work.ledger.sum_totals(day)
    assert totals == Totals(Decimal(on_day), Decimal(in_month))
    assert isinstance(totals.day, Decimal)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(nanos=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=200))
async def test_sums_are_exact_to_the_nano_dollar(store: SqlStore, nanos: list[int]) -> None:
    exact = from_nano(sum(nanos))
    async with forgotten(store) as work:
        await work.jobs.save(a_job(leases=(a_lease(),)))
        await work.ledger.post(an_entry(f"e{number}", from_nano(nano)) for number, nano in enumerate(nanos))
        assert (await work.ledger.sum_totals(DAY)).month == exact
        assert (await work.ledger.sum_by_day(["lease-1"]))["lease-1"] == {(CostKind.COMPUTE, DAY): exact}
        assert [cell.amount for cell in (await work.reports.sum_spend()).cells] == [exact]
        assert [job.spent for job in await work.jobs.list_open()] == [exact]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET amount_nano = 0",
        "UPDATE ledger_entries SET corrects = 'a1' WHERE id = 'a2'",
        "DELETE FROM ledger_entries",
        "DELETE FROM ledger_entries WHERE id = 'a1'",
    ],
)
async def test_the_database_itself_refuses_to_change_an_entry(
    posted: SqlStore, ledger_path: Path, statement: str
) -> None:
    with sqlite3.connect(ledger_path) as outside, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        outside.execute(statement)
    async with posted.snapshot() as work:
        assert len((await work.reports.sum_spend(per="day")).cells) == 7


async def test_replacing_an_entry_keeps_the_first(posted: SqlStore, ledger_path: Path) -> None:
    with sqlite3.connect(ledger_path) as outside:
        before = outside.execute("SELECT * FROM ledger_entries WHERE id = 'a1'").fetchall()
        outside.execute(
            "INSERT OR REPLACE INTO ledger_entries SELECT id, type, kind, lease_id, job_id, provider, day, 0,"
            " posted_at, corrects, line_id FROM ledger_entries WHERE id = 'a1'"
        )
        assert outside.execute("SELECT * FROM ledger_entries WHERE id = 'a1'").fetchall() == before


async def test_the_views_answer_in_dollars_to_any_sqlite_client(posted: SqlStore, ledger_path: Path) -> None:
    outside = sqlite3.connect(ledger_path)
    assert outside.execute("SELECT * FROM spend_by_month").fetchall() == [
        ("2026-10", "vastai", 1.0, 0.0, 0.0, 0.0, 1.0),
        ("2026-11", "vastai", 5.999999999, 0.25, 0.0, 0.0, 6.249999999),
        ("2026-12", "runpod", 8.0, 0.0, 0.5, 0.0, 8.5),
        ("2026-12", "vastai", 16.0, 0.0, 0.0, 0.0, 16.0),
    ]
    columns = " + ".join(f"{name}_usd" for name in COST_NAMES)
    for view in (name for name in VIEWS if name.startswith("spend_by_")):
        sums = outside.execute(f"SELECT round(sum({columns}), 9), round(sum(total_usd), 9) FROM {view}").fetchone()
        assert sums[0] == sums[1] > 0, view
    assert outside.execute("SELECT job_id, job, status, leases, total_usd FROM spend_by_job").fetchall() == [
        (None, None, None, 1, 16.0),
        ("job-000001", "train", "pending", 2, 7.249999999),
        ("job-000002", "other", "pending", 1, 8.5),
    ]
    by_instance = "SELECT instance_id, lease_id, gpu, first_day, last_day, total_usd FROM spend_by_instance"
    assert outside.execute(by_instance).fetchall() == [
        ("7001", "lease-1", "RTX 4090", "2026-10-31", "2026-11-01", 3.249999999),
        ("7002", "lease-2", "H100", "2026-11-30", "2026-11-30", 4.0),
        (None, "lease-3", "RTX 4090", "2026-12-01", "2026-12-01", 8.5),
        ("7004", "lease-4", "RTX 4090", "2026-12-01", "2026-12-01", 16.0),
    ]


async def test_an_entry_must_name_a_lease_and_what_it_corrects(posted: SqlStore) -> None:
    for entry in (an_entry("x", "1", lease=a_lease("unknown")), an_entry("x", "1", corrects="nothing")):
        with pytest.raises(ConstraintViolated):
            async with posted.transaction() as work:
                await work.ledger.post([entry])
