from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.money import (
    accrue,
    ceil_nano,
    floor_nano,
    from_nano,
    show,
    storage_rate,
    to_nano,
    usd,
    worst_case,
)

D = Decimal


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0.31", "0.31"),
        ("$25.00", "25"),
        (" $25 ", "25"),
        ("1,250.50", "1250.50"),
        ("$1,000,000", "1000000"),
        ("0.000000001", "0.000000001"),
        ("-3", "-3"),
        (25, "25"),
        (D("0.1"), "0.1"),
    ],
)
def test_dollars_are_read_exactly(text: str | int | Decimal, amount: str) -> None:
    assert usd(text) == D(amount)


@pytest.mark.parametrize("value", [0.31, 25.0, float("nan"), float("inf")])
def test_floats_are_refused(value: float) -> None:
    with pytest.raises(TypeError):
        usd(value)  # type: ignore[arg-type]  # a float, which no caller may pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ten",
        "$",
        "25 EUR",
        "NaN",
        "Infinity",
        "-inf",
        "0.0000000001",
        "1e-10",
        pytest.param("1,5", id="a comma for a decimal point is not fifteen dollars"),
        pytest.param("$12,50", id="nor is this 1250 dollars"),
        pytest.param("1e30", id="too large to be kept exactly"),
        "-1e9999999",
        "1e-9999999",
        pytest.param("99999999999999999999", id="too large for the ledger's integers"),
    ],
)
def test_what_is_not_an_exact_amount_is_the_users_error(text: str) -> None:
    with pytest.raises(UserError):
        usd(text)


def test_nano_dollars_round_nothing() -> None:
    assert to_nano(D("1.000000001")) == 1_000_000_001
    assert from_nano(1_000_000_001) == D("1.000000001")
    assert from_nano(-1) == D("-0.000000001")
    with pytest.raises(ValueError, match="whole number"):
        to_nano(D("0.0000000001"))


def test_floor_and_ceiling_go_down_and_up_for_debts_too() -> None:
    assert floor_nano(D("0.0000000019")) == D("0.000000001")
    assert ceil_nano(D("0.0000000011")) == D("0.000000002")
    assert floor_nano(D("-0.0000000011")) == D("-0.000000002")
    assert ceil_nano(D("-0.0000000019")) == D("-0.000000001")


@pytest.mark.parametrize(
    ("rate", "elapsed", "cost"),
    [
        ("0.36", timedelta(hours=1), "0.36"),
        ("0.36", timedelta(seconds=1), "0.0001"),
        ("0.36", timedelta(microseconds=36), "0.000000004"),  # 3.6 nano-dollars
        ("0.36", timedelta(microseconds=5), "0"),  # half a nano-dollar goes to the even side
        ("0.36", timedelta(microseconds=15), "0.000000002"),  # and 1.5 up to it
        ("0.36", timedelta(0), "0"),
        ("1", timedelta(hours=720), "720"),
    ],
)
def test_accrual_is_half_even_to_a_nano_dollar(rate: str, elapsed: timedelta, cost: str) -> None:
    assert accrue(D(rate), elapsed) == D(cost)


def test_a_reserve_rounds_up() -> None:
    assert worst_case(D("0.36"), timedelta(microseconds=1)) == D("0.000000001")
    assert worst_case(D("0.36"), timedelta(hours=1)) == D("0.36")


def test_a_month_of_storage_is_720_hours() -> None:
    assert storage_rate(D("0.14933"), D(10)) == D("0.002074028")  # 0.00207402777… rounded up
    assert storage_rate(D("0.72"), D(1000)) == D(1)


@pytest.mark.parametrize(
    ("amount", "places", "text"),
    [
        ("12.3", 2, "$12.30"),
        ("-0.004", 3, "-$0.004"),
        ("-0.004", 2, "$0.00"),
        ("1234567.891", 2, "$1,234,567.89"),
        ("0.125", 2, "$0.12"),
    ],
)
def test_amounts_for_people(amount: str, places: int, text: str) -> None:
    assert show(D(amount), places) == text
