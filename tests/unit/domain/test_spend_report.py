"""Spend reports: sums by local day, hours, and what they are compared with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Span
from autopilot.domain.money import ZERO, from_nano
from autopilot.domain.spend import Cell, LeaseFacts, SpendKey, SpendSource, report, total_row
from autopilot.domain.zones import local_days, local_months, share_out, window

BERLIN, CHATHAM, CAIRO = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Chatham"), ZoneInfo("Africa/Cairo")
ZONES: list[tzinfo] = [
    UTC,
    BERLIN,
    CHATHAM,
    CAIRO,
    ZoneInfo("America/New_York"),
    ZoneInfo("Asia/Kolkata"),
    ZoneInfo("Pacific/Apia"),
]
LATER = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
instants = st.integers(0, 3 * 365 * 24 * 60).map(lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n))


def a_source(cells: list[Cell], spans: list[Span], rate: str | None = None) -> SpendSource:
    facts = LeaseFacts("l", "j", "train", "vastai", "7", "RTX 4090", 2, None if rate is None else Decimal(rate))
    ran = [(span.started_at, span.ended_at) for span in spans if span.status is InstanceStatus.RUNNING]
    return SpendSource({"l": facts}, cells, {"l": ran} if ran else {}, {"l": spans} if spans else {})


def running(start: datetime, end: datetime | None, rate: str = "1", storage: str = "0") -> Span:
    return Span(InstanceStatus.RUNNING, Decimal(rate), Decimal(storage), start, end)


def by_day(source: SpendSource, zone: tzinfo, **period: date) -> dict[str, Decimal]:
    return {row.key: row.posted for row in report(source, "day", now=LATER, zone=zone, **period)}


def test_a_utc_day_is_shared_out_where_the_money_was_spent() -> None:
    start = datetime(2026, 11, 20, 20, tzinfo=UTC)  # 21:00 in Berlin
    source = a_source([Cell("l", date(2026, 11, 20), CostKind.COMPUTE, Decimal(4))], [running(start, start + 4 * HOUR)])
    assert by_day(source, BERLIN) == {"2026-11-20": Decimal(3), "2026-11-21": Decimal(1)}
    assert by_day(source, UTC) == {"2026-11-20": Decimal(4)}
    assert by_day(source, BERLIN, first=date(2026, 11, 21)) == {"2026-11-21": Decimal(1)}
    assert by_day(source, BERLIN, after=date(2026, 11, 21)) == {"2026-11-20": Decimal(3)}


def test_a_dearer_hour_takes_the_greater_share() -> None:
    start = datetime(2026, 11, 20, 22, tzinfo=UTC)
    spans = [running(start, start + HOUR, "1"), running(start + HOUR, start + 2 * HOUR, "3")]
    source = a_source([Cell("l", date(2026, 11, 20), CostKind.COMPUTE, Decimal(4))], spans)
    assert by_day(source, BERLIN) == {"2026-11-20": Decimal(1), "2026-11-21": Decimal(3)}


def test_disks_are_shared_out_by_what_the_machine_did() -> None:
    start = datetime(2026, 11, 20, 22, tzinfo=UTC)
    stopped = Span(InstanceStatus.STOPPED, ZERO, Decimal(1), start, start + HOUR)
    spans = [stopped, running(start + HOUR, start + 2 * HOUR, "1", "1")]
    day = date(2026, 11, 20)
    cells = [Cell("l", day, CostKind.STORAGE_STOPPED, Decimal(1)), Cell("l", day, CostKind.STORAGE_RUNNING, Decimal(2))]
    assert by_day(a_source(cells, spans), BERLIN) == {"2026-11-20": Decimal(1), "2026-11-21": Decimal(2)}
    traffic = a_source([Cell("l", day, CostKind.BANDWIDTH, Decimal(5))], spans)
    assert by_day(traffic, BERLIN) == {"2026-11-21": Decimal(5)}


def test_what_no_span_tells_is_shared_out_evenly() -> None:
    source = a_source([Cell("l", date(2026, 11, 20), CostKind.CREDIT, Decimal(-24))], [])
    assert by_day(source, BERLIN) == {"2026-11-20": Decimal(-23), "2026-11-21": Decimal(-1)}


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        pytest.param(date(2026, 3, 29), 23, id="spring"),
        pytest.param(date(2026, 10, 25), 25, id="autumn"),
        pytest.param(date(2028, 2, 29), 24, id="leap-day"),
    ],
)
def test_a_day_has_as_many_hours_as_its_zone_gives_it(day: date, hours: int) -> None:
    start = datetime(day.year, day.month, 1, tzinfo=UTC)
    source = a_source(
        [Cell("l", day + timedelta(days=n), CostKind.COMPUTE, Decimal(24)) for n in (-1, 0, 1)],
        [running(start, LATER)],
    )
    assert by_day(source, BERLIN)[day.isoformat()] == hours
    ran = {row.key: row.running for row in report(source, "day", now=LATER, zone=BERLIN)}
    assert ran[day.isoformat()] == hours * HOUR


@given(
    zone=st.sampled_from(ZONES),
    starts=st.lists(instants, min_size=1, max_size=4),
    lengths=st.lists(st.timedeltas(timedelta(minutes=1), timedelta(days=40)), min_size=4, max_size=4),
    amounts=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=6),
    kinds=st.lists(st.sampled_from(CostKind), min_size=6, max_size=6),
)
def test_not_a_nano_dollar_is_lost_or_gained_in_any_zone(
    zone: tzinfo,
    starts: list[datetime],
    lengths: list[timedelta],
    amounts: list[int],
    kinds: list[CostKind],
) -> None:
    spans = [running(at, at + length, "0.31", "0.002") for at, length in zip(starts, lengths, strict=False)]
    days = [starts[0].date() + timedelta(days=n) for n in range(len(amounts))]
    cells = [Cell("l", day, kind, from_nano(amount)) for day, kind, amount in zip(days, kinds, amounts, strict=False)]
    source = a_source(cells, spans)
    exact = from_nano(sum(amounts))
    daily = by_day(source, zone)
    months: dict[str, Decimal] = {}
    for day, amount in daily.items():
        months[day[:7]] = months.get(day[:7], ZERO) + amount
    reported = {row.key: row.posted for row in report(source, "month", now=LATER, zone=zone)}
    assert sum(daily.values(), ZERO) == exact
    assert reported == months
    # A month's own report, made of the cells of the UTC days that it touches, says the same.
    for month, amount in months.items():
        first = date.fromisoformat(f"{month}-01")
        after = (first + timedelta(days=31)).replace(day=1)
        since, before = window(zone, first, after)
        assert since is not None
        assert before is not None
        some = SpendSource(
            source.leases, [c for c in cells if c.day and since <= c.day < before], source.ran, source.spans
        )
        rows = report(some, "job", now=LATER, zone=zone, first=first, after=after)
        assert sum((row.posted for row in rows), ZERO) == amount


@given(
    zone=st.sampled_from(ZONES),
    start=instants,
    length=st.timedeltas(timedelta(0), timedelta(days=400)),
)
def test_local_days_follow_each_other_without_gap(zone: tzinfo, start: datetime, length: timedelta) -> None:
    parts = list(local_days(start, start + length, zone))
    assert sum(((until - since) for _, since, until in parts), timedelta(0)) == length
    assert [until for _, _, until in parts][:-1] == [since for _, since, _ in parts][1:]
    assert [day for day, _, _ in parts] == sorted({day for day, _, _ in parts})


@given(zone=st.sampled_from(ZONES), start=instants, length=st.timedeltas(timedelta(0), timedelta(days=400)))
def test_a_month_is_the_sum_of_its_days(zone: tzinfo, start: datetime, length: timedelta) -> None:
    of_days: dict[date, timedelta] = {}
    for day, since, until in local_days(start, start + length, zone):
        first = day.replace(day=1)
        of_days[first] = of_days.get(first, timedelta(0)) + (until - since)
    months = {first: until - since for first, since, until in local_months(start, start + length, zone)}
    assert months == of_days


@given(amount=st.integers(-(10**15), 10**15), weights=st.lists(st.integers(0, 10**18), min_size=1).filter(any))
def test_shares_add_up_and_follow_the_weights(amount: int, weights: list[int]) -> None:
    shares = share_out(from_nano(amount), weights)
    assert sum(shares, ZERO) == from_nano(amount)
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - from_nano(amount) * weight / sum(weights)) <= Decimal("1e-9") * 2


def test_hours_of_a_period_end_with_it() -> None:
    start = datetime(2026, 10, 31, 22, tzinfo=UTC)
    cells = [Cell("l", None, CostKind.COMPUTE, Decimal(5)), Cell("l", None, CostKind.STORAGE_STOPPED, Decimal(1))]
    source = a_source(cells, [running(start, None)], rate="4")
    (row,) = report(source, "gpu", now=start + 10 * HOUR, first=date(2026, 11, 1), after=date(2026, 12, 1))
    assert (row.running, row.on_demand, row.saved) == (8 * HOUR, Decimal(32), Decimal(26))
    assert row.gpu_hours == {"RTX 4090": (16 * HOUR, Decimal(6))}
    assert total_row([row, row]).on_demand == Decimal(64)


def test_columns() -> None:
    amounts = {kind: Decimal(number) for number, kind in enumerate(CostKind, 1)}
    source = a_source([Cell("l", None, kind, amount) for kind, amount in amounts.items()], [])
    (row,) = report(source, "label", now=LATER)
    assert (row.key, row.posted) == ("train", sum(amounts.values()))
    assert row.costs.storage == amounts[CostKind.STORAGE_RUNNING] + amounts[CostKind.STORAGE_STOPPED]
    assert row.costs.fees == amounts[CostKind.FEE] + amounts[CostKind.CREDIT]
    assert (row.on_demand, row.saved) == (None, None)


START = datetime(2026, 11, 20, 22, tzinfo=UTC)  # 23:00 in Berlin
DAY, NEXT_DAY = START.date(), START.date() + timedelta(days=1)


def two_leases() -> SpendSource:
    """One ran from 22:00 to 01:00 with an on-demand price, one of another job for an hour without."""
    first = LeaseFacts("l1", "j1", "train", "vastai", "7", "RTX 4090", 2, Decimal(4))
    second = LeaseFacts("l2", None, "", "runpod", None, "A100", 1, None)
    cells = [
        Cell("l1", DAY, CostKind.COMPUTE, Decimal(4)),
        Cell("l1", NEXT_DAY, CostKind.COMPUTE, Decimal(2)),
        Cell("l1", DAY, CostKind.FEE, Decimal("0.5")),
        Cell("l2", DAY, CostKind.COMPUTE, Decimal(3)),
        Cell("l2", DAY, CostKind.STORAGE_STOPPED, Decimal(1)),
    ]
    ran = {"l1": [(START, START + 3 * HOUR)], "l2": [(START, START + HOUR)]}
    spans = {"l1": [running(START, START + 3 * HOUR, "2")], "l2": [running(START, START + HOUR, "3")]}
    accrued = [
        Cell("l1", NEXT_DAY, CostKind.COMPUTE, Decimal("0.25")),
        Cell("l2", DAY, CostKind.COMPUTE, Decimal("0.5")),
    ]
    held = [Cell("l1", DAY, CostKind.COMPUTE, Decimal("0.125")), Cell("l2", DAY, CostKind.COMPUTE, Decimal("0.0625"))]
    return SpendSource({"l1": first, "l2": second}, cells, ran, spans, accrued, held)


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("month", ["2026-11"]),
        ("day", ["2026-11-20", "2026-11-21"]),
        ("job", ["", "j1"]),
        ("label", ["", "train"]),
        ("provider", ["runpod", "vastai"]),
        ("gpu", ["A100", "RTX 4090"]),
        ("kind", ["compute", "fee", "storage_stopped"]),
        ("instance", ["7", "l2"]),
    ],
)
def test_however_it_is_cut_the_sums_are_the_same(by: SpendKey, keys: list[str]) -> None:
    rows = report(two_leases(), by, now=LATER)
    assert [row.key for row in rows] == keys
    total = total_row(rows)
    assert [str(amount) for amount in total.costs.by_column.values()] == ["9", "1", "0", "0.5"]
    assert (total.accrued, total.held, total.posted) == (Decimal("0.75"), Decimal("0.1875"), Decimal("10.5"))
    assert (total.leases, total.instances, total.compared) == (frozenset({"l1", "l2"}), 2, Decimal(6))
    hours = {"RTX 4090": 6 * HOUR, "A100": HOUR} if by != "kind" else {}
    assert total.gpu_hours == {
        "RTX 4090": (hours.get("RTX 4090", timedelta(0)), Decimal(6)),
        "A100": (hours.get("A100", timedelta(0)), Decimal(4)),
    }
    assert (total.running, total.on_demand) == ((4 * HOUR, 12) if hours else (timedelta(0), None))


def test_a_line_is_of_its_own_lease() -> None:
    without, ours = report(two_leases(), "job", now=LATER)
    assert (ours.name, ours.leases) == ("train", frozenset({"l1"}))
    assert (ours.accrued, ours.held) == (Decimal("0.25"), Decimal("0.125"))
    assert (ours.running, ours.on_demand) == (3 * HOUR, Decimal(12))
    assert (ours.compared, ours.saved) == (Decimal(6), Decimal(6))
    assert (without.name, without.leases) == ("", frozenset({"l2"}))
    assert (without.accrued, without.held) == (Decimal("0.5"), Decimal("0.0625"))
    assert (without.running, without.on_demand) == (HOUR, None)
    assert (without.compared, without.saved) == (Decimal(0), None)
    assert [row.name for row in report(two_leases(), "gpu", now=LATER)] == [None, None]


def test_hours_and_money_stand_on_the_zone_s_own_days() -> None:
    rows = report(two_leases(), "day", now=LATER, zone=BERLIN)
    assert [(row.key, row.running, row.costs.compute, row.held) for row in rows] == [
        ("2026-11-20", 2 * HOUR, Decimal(5), Decimal("0.1875")),
        ("2026-11-21", 2 * HOUR, Decimal(4), ZERO),
    ]
    assert [row.accrued for row in rows] == [Decimal("0.5"), Decimal("0.25")]


def test_of_a_period_only_what_is_within_it() -> None:
    source = replace(two_leases(), cells=[])  # their reader chooses those
    (row,) = report(source, "day", now=LATER, first=NEXT_DAY, after=NEXT_DAY + timedelta(days=1))
    assert (row.key, row.accrued, row.held, row.running) == ("2026-11-21", Decimal("0.25"), ZERO, HOUR)
    (row,) = report(source, "day", now=LATER, first=DAY, after=NEXT_DAY)
    assert (row.key, row.accrued, row.held, row.running) == (
        *("2026-11-20", Decimal("0.5"), Decimal("0.1875"), 3 * HOUR),
    )


def test_hours_before_and_after_the_period_count_for_nothing() -> None:
    later = report(two_leases(), "job", now=LATER, first=NEXT_DAY)
    assert [row.running for row in later] == [timedelta(0), HOUR], "not less than nothing for what ran before"
