"""Column types refuse what they cannot keep exactly; columns follow the records' fields."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Table, make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from autopilot.domain.host import NO_NEEDS, Arch, HostNeeds
from autopilot.domain.job import Checkpoint, GpuChoice, Job, JobSpec
from autopilot.domain.lease import Lease, Span, TaskUse
from autopilot.domain.ledger import LedgerEntry
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store import schema
from autopilot.store.columns import PATHS, columns_of
from autopilot.store.types import Code, Duration, Instant, NanoUSD, SpecJson

SQLITE, POSTGRES = (make_url(url).get_dialect()() for url in ("sqlite://", "postgresql+psycopg://"))
instants = st.datetimes(timezones=st.timezones(), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("wrong", [0.31, 1, "0.31", Decimal("1e-10"), Decimal("NaN"), Decimal("Infinity")])
def test_money_is_refused_unless_it_is_whole_nano_dollars(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError, ArithmeticError)):
        NanoUSD().process_bind_param(wrong, SQLITE)


def test_money_is_kept_as_nano_dollars() -> None:
    assert NanoUSD().process_bind_param(Decimal("-12.345678901"), SQLITE) == -12_345_678_901
    assert NanoUSD().process_result_value(-12_345_678_901, POSTGRES) == Decimal("-12.345678901")
    assert NanoUSD().process_bind_param(None, SQLITE) is None


@given(a=instants, b=instants)
def test_instants_sort_as_text_as_they_do_in_time(a: datetime, b: datetime) -> None:
    stored_a, stored_b = (Instant().process_bind_param(instant, SQLITE) for instant in (a, b))
    assert (stored_a < stored_b) == (a.astimezone(UTC) < b.astimezone(UTC))
    assert len(stored_a) == len("2026-01-01T00:00:00.000000Z")
    restored = Instant().process_result_value(stored_a, SQLITE)
    assert restored == a.astimezone(UTC)
    assert restored.tzinfo is UTC


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Instant().process_bind_param(datetime(2026, 1, 1), SQLITE)  # noqa: DTZ001


def test_an_instant_stays_an_instant_where_the_database_knows_them() -> None:
    at = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert Instant().process_bind_param(at, POSTGRES) == datetime(2026, 1, 1, tzinfo=UTC)
    back = Instant().process_result_value(at, POSTGRES)
    assert back is not None
    assert back.tzinfo is UTC


def test_durations_keep_their_microseconds() -> None:
    span = timedelta(days=400, microseconds=1)
    stored = Duration().process_bind_param(span, SQLITE)
    assert stored == 400 * 86_400_000_000 + 1
    assert Duration().process_result_value(stored, SQLITE) == span


def test_only_known_codes_are_written() -> None:
    assert Code(Reason).process_bind_param("outbid", SQLITE) == "outbid"
    assert Code(Reason).process_result_value("outbid", SQLITE) is Reason.OUTBID
    with pytest.raises(ValueError, match="weather"):
        Code(Reason).process_bind_param("weather", SQLITE)


@pytest.mark.parametrize(
    ("table", "record", "elsewhere"),
    [
        (schema.jobs, Job, {"checkpoint", "spent", "held", "is_estimate", "leases"}),
        (schema.leases, Lease, {"spans", "uses"}),
        (schema.lease_uses, TaskUse, ()),
        (schema.lease_spans, Span, ()),
        (schema.checkpoints, Checkpoint, ()),
        (schema.ledger_entries, LedgerEntry, ()),
        (schema.bids, BidRecord, ()),
        (schema.decisions, DecisionRecord, ()),
        (schema.events, EventRecord, ()),
        (schema.price_observations, PriceObservation, ()),
    ],
)
def test_every_field_has_its_column(table: Table, record: type, elsewhere: Collection[str]) -> None:
    """A field of its own, or one for each field of the record that it holds."""
    paths = table.info.get(PATHS, {})
    within = {group for group, _ in paths.values()}
    assert {field.name for field in fields(record)} - set(elsewhere) - within <= set(table.c.keys())
    assert set(paths) <= set(table.c.keys())
    hints = get_type_hints(record)
    assert set(paths.values()) == {(group, field.name) for group in within for field in fields(hints[group])}


def test_names_carry_the_unit_and_options_become_nullable() -> None:
    @dataclass
    class Sample:
        rate: Decimal
        size_gb: Decimal
        work_done: timedelta | None

    columns = columns_of(Sample, not_money=("size_gb",))
    assert [(column.key, column.name, column.nullable) for column in columns] == [
        ("rate", "rate_nano", False),
        ("size_gb", "size_gb", False),
        ("work_done", "work_done_us", True),
    ]


def test_the_schema_compiles_for_postgres() -> None:
    leases = str(CreateTable(schema.leases).compile(dialect=POSTGRES))
    assert "TIMESTAMP WITH TIME ZONE" in leases
    assert "rate_nano BIGINT NOT NULL" in leases
    events = str(CreateTable(schema.events).compile(dialect=POSTGRES))
    assert "seq BIGSERIAL" in events
    (slot,) = (index for index in schema.leases.indexes if index.unique)
    assert "WHERE state IN ('active', 'intent', 'paused') AND job_id IS NOT NULL" in str(
        CreateIndex(slot).compile(dialect=POSTGRES)
    )


def test_a_spec_keeps_what_it_asks_of_the_machine_and_is_read_where_an_older_version_asked_nothing() -> None:
    needs = HostNeeds(cuda=Decimal("12.8"), driver="535.86.05", arch=Arch.AMD64, countries=("DE", "US"))
    spec = JobSpec("a", "image", "true", (GpuChoice("RTX 4090"),), host=needs)
    stored = SpecJson().process_bind_param(spec, SQLITE)
    assert SpecJson().process_result_value(stored, SQLITE) == spec
    del stored["host"]
    older = SpecJson().process_result_value(stored, SQLITE)
    assert older is not None
    assert older.host == NO_NEEDS
