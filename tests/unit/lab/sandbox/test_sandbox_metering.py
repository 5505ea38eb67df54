from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from autopilot_lab.sandbox.market.metering import DISK, DOWN, GPU, Meter, to_decimal

START = datetime(2026, 3, 1, 23, 0, tzinfo=UTC)
MILLI = Decimal("0.001")


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def test_gpu_cost_over_pause_resume_and_bid_change_is_exact() -> None:
    meter = Meter()
    meter.run(GPU, Fraction("0.3"), at(0))
    meter.halt(GPU, at(1.5))
    meter.run(GPU, Fraction("0.3"), at(2))
    meter.run(GPU, Fraction("0.5"), at(2.25))
    meter.halt(GPU, at(3))
    assert meter.cost(at(10))[GPU] == Fraction("0.3") * Fraction(7, 4) + Fraction("0.5") * Fraction(3, 4)


def test_bill_splits_at_utc_midnight_and_by_rate() -> None:
    meter = Meter()
    meter.run(GPU, Fraction("0.3"), at(0))
    meter.run(GPU, Fraction("0.4"), at(2))
    lines = meter.lines(at(3))
    assert [(line.day, line.quantity, line.price) for line in lines] == [
        (date(2026, 3, 1), Fraction(1), Fraction("0.3")),
        (date(2026, 3, 2), Fraction(1), Fraction("0.3")),
        (date(2026, 3, 2), Fraction(1), Fraction("0.4")),
    ]
    assert [line.amount for line in lines] == [Decimal("0.300"), Decimal("0.300"), Decimal("0.400")]


def test_documented_bill_lines() -> None:
    """The provider's own example: 1.5 h at 0.165, 14.6 h of 40 GB at 0.2 a month, 10.24 GB down at 0.002."""
    meter = Meter()
    begin = datetime(2026, 3, 2, 1, tzinfo=UTC)
    meter.run(DISK, Fraction("0.2") * 40 / 720, begin)
    meter.run(GPU, Fraction("0.165"), begin)
    meter.halt(GPU, begin + timedelta(hours=1.5))
    meter.halt(DISK, begin + timedelta(hours=14.6))
    meter.transfer(DOWN, Fraction("10.24"), Fraction("0.002"), begin)
    amounts = {line.kind: line.amount for line in meter.lines(begin + timedelta(hours=20))}
    assert amounts == {GPU: Decimal("0.248"), DISK: Decimal("0.162"), DOWN: Decimal("0.020")}


MOVES = st.lists(
    st.tuples(st.integers(1, 10**11), st.sampled_from(["run", "halt", "disk"]), st.integers(1, 9999)), max_size=30
)


@given(MOVES)
def test_the_bill_equals_the_books_to_half_a_unit_per_line(moves: list[tuple[int, str, int]]) -> None:
    meter, now = Meter(), START
    meter.run(DISK, Fraction("0.15") * 10 / 720, now)
    for microseconds, move, rate in moves:
        now += timedelta(microseconds=microseconds)
        if move == "run":
            meter.run(GPU, Fraction(rate, 10_000), now)
        elif move == "halt":
            meter.halt(GPU, now)
        else:
            meter.transfer(DOWN, Fraction(rate, 1000), Fraction("0.002"), now)
    lines = meter.lines(now)
    assert sum((line.quantity * line.price for line in lines), Fraction(0)) == meter.total(now)
    billed = sum((line.amount for line in lines), Decimal(0))
    assert abs(Fraction(billed) - meter.total(now)) <= Fraction(len(lines), 2000)


@given(st.fractions(min_value=-10, max_value=10))
def test_rounding_is_to_the_nearest(value: Fraction) -> None:
    rounded = to_decimal(value, MILLI)
    assert rounded == rounded.quantize(MILLI)
    assert abs(Fraction(rounded) - value) <= Fraction(1, 2000)
