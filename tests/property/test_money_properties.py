"""Money and time: exact against whole-number arithmetic, and nothing lost where intervals are cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease, LeaseState, cost_by_day
from autopilot.domain.money import accrue, from_nano, show, storage_rate, to_nano, usd, worst_case
from autopilot.domain.time import parse_duration, split_by_day, start_of_day, utc_day
from autopilot.engine.accrue import accruals
from tests.builders import D, an_intent

rates = st.integers(0, 200 * 10**9).map(from_nano)
spans = st.timedeltas(timedelta(0), timedelta(days=400))
instants = st.datetimes(datetime(2026, 1, 1), datetime(2029, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NANO = D("1e-9")


def exact_nano(rate: Decimal, elapsed: timedelta) -> Fraction:
    return Fraction(to_nano(rate) * (elapsed // timedelta(microseconds=1)), 3_600_000_000)


@given(rates, spans)
def test_accrual_is_the_exact_cost_rounded_half_even(rate: Decimal, elapsed: timedelta) -> None:
    assert to_nano(accrue(rate, elapsed)) == round(exact_nano(rate, elapsed))


@given(rates, spans)
def test_a_reserve_is_the_exact_cost_rounded_up(rate: Decimal, elapsed: timedelta) -> None:
    assert to_nano(worst_case(rate, elapsed)) == -(-exact_nano(rate, elapsed) // 1)


@given(rates, st.lists(spans, min_size=1, max_size=8))
def test_an_interval_cut_anywhere_costs_the_same_within_half_a_nano_dollar_a_cut(
    rate: Decimal, parts: list[timedelta]
) -> None:
    whole = accrue(rate, sum(parts, timedelta(0)))
    assert abs(sum(accrue(rate, part) for part in parts) - whole) <= (len(parts) + 1) * NANO / 2


@given(st.integers(-(10**18), 10**18))
def test_nano_dollars_survive_the_way_through_text(nano: int) -> None:
    amount = from_nano(nano)
    assert usd(str(amount)) == usd(f"${amount:f}".replace("$-", "-")) == amount
    assert to_nano(usd(str(amount))) == nano


@given(st.integers(0, 10**17).map(from_nano))
def test_grouped_amounts_for_people_are_read_back(amount: Decimal) -> None:
    assert usd(show(amount, 9)) == amount


@given(st.integers(0, 10**12).map(from_nano), st.integers(0, 10**5).map(Decimal))
def test_storage_is_never_priced_too_low(price: Decimal, gigabytes: Decimal) -> None:
    exact = Fraction(to_nano(price)) * int(gigabytes) / 720
    assert 0 <= to_nano(storage_rate(price, gigabytes)) - exact < 1


@given(instants, st.timedeltas(timedelta(0), timedelta(days=70)))
def test_days_partition_an_interval(start: datetime, length: timedelta) -> None:
    parts = list(split_by_day(start, start + length))
    edges = [start, *(until for _, _, until in parts)]
    assert [begun for _, begun, _ in parts] == edges[:-1]
    assert edges[-1] == start + length
    assert [day for day, _, _ in parts] == sorted({day for day, _, _ in parts})
    assert all(begun == start_of_day(day) for day, begun, _ in parts[1:])
    assert all(utc_day(begun) == day for day, begun, _ in parts)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(1, 60))
def test_durations_add_up_their_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == span


@st.composite
def lives(draw: st.DrawFn) -> tuple[Lease, datetime]:
    """A lease with spans of any status and rate, one after the other, and the moment of its end."""
    now = draw(instants)
    lease = an_intent(intended_at=now)
    for _ in range(draw(st.integers(1, 6))):
        lease = lease.bill_as(draw(st.sampled_from(InstanceStatus)), draw(rates), draw(rates), now)
        now += draw(st.timedeltas(timedelta(microseconds=1), timedelta(days=3)))
    return lease, now


@given(lives(), st.data())
def test_ticks_at_any_moments_post_exactly_what_the_lease_cost(
    life: tuple[Lease, datetime], data: st.DataObject
) -> None:
    lease, end = life
    moments = data.draw(
        st.lists(
            st.datetimes(lease.intended_at.replace(tzinfo=None), end.replace(tzinfo=None), timezones=st.just(UTC)),
            max_size=6,
        ).map(sorted)
    )
    posted: dict[tuple[CostKind, date], Decimal] = {}
    ids: set[str] = set()
    over = replace(lease.stop_billing(end), state=LeaseState.GONE)
    for seen, now in [*((cut(lease, moment), moment) for moment in moments), (over, end)]:
        due, unposted = accruals(seen, posted, now)
        assert 0 <= unposted < 2 * D("0.01") * 6
        for entry in due:
            assert entry.amount > 0
            assert entry.id not in ids, "the same accrual twice"
            ids.add(entry.id)
            posted[entry.kind, entry.day] = posted.get((entry.kind, entry.day), D(0)) + entry.amount
    assert posted == {key: amount for key, amount in cost_by_day(over, end).items() if amount}


def cut(lease: Lease, now: datetime) -> Lease:
    """The lease as it was known at that moment."""
    known = tuple(
        replace(span, ended_at=span.ended_at if span.ended_at is not None and span.ended_at <= now else None)
        for span in lease.spans
        if span.started_at <= now
    )
    return replace(lease, spans=known, observed=replace(lease.observed, seen_at=now))


@given(lives())
def test_a_life_costs_its_spans(life: tuple[Lease, datetime]) -> None:
    lease, end = life
    costs = cost_by_day(lease, end)
    for is_disk in (False, True):
        exact, pieces = Fraction(0), 0
        for span in lease.spans:
            rate, ended = span.storage_rate if is_disk else span.billed_rate, span.ended_at or end
            exact += exact_nano(rate, ended - span.started_at)
            pieces += len(list(split_by_day(span.started_at, ended)))
        posted = sum(to_nano(amount) for (kind, _), amount in costs.items() if kind.is_storage is is_disk)
        assert abs(posted - exact) <= Fraction(pieces, 2)
