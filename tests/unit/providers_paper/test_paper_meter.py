from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from autopilot.providers.paper.meter import cost_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_third_of_an_hour_is_rounded_to_a_nano_dollar() -> None:
    assert cost_of(Decimal("0.1"), START, START + timedelta(minutes=20)) == Decimal("0.033333333")


def test_half_a_nano_dollar_goes_to_the_even_one() -> None:
    rate = Decimal("0.000000001")
    assert cost_of(rate, START, START + timedelta(minutes=30)) == 0
    assert cost_of(3 * rate, START, START + timedelta(minutes=30)) == Decimal("0.000000002")
