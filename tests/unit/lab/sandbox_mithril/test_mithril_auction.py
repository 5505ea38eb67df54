"""One round of Mithril's auction: who wins, and what all pay."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot_lab.sandbox.mithril.auction import Order, clear

D = Decimal
MINIMUM = D("1.00")


def orders(*limits: str, quantity: int = 1) -> list[Order]:
    return [Order(f"o{number}", D(limit), quantity, number) for number, limit in enumerate(limits)]


@pytest.mark.parametrize(
    ("limits", "slots", "winners", "price", "lowest", "free"),
    [
        ((), 2, "", "1.00", None, 2),
        (("5.00",), 2, "o0", "1.00", "5.00", 1),
        (("5.00", "3.00"), 2, "o0 o1", "1.00", "3.00", 0),
        (("5.00", "3.00", "2.00"), 2, "o0 o1", "2.00", "3.00", 0),
        (("2.00", "3.00", "5.00"), 2, "o1 o2", "2.00", "3.00", 0),
        (("0.99",), 2, "", "1.00", None, 2),
        (("2.00", "2.00"), 1, "o0", "2.00", "2.00", 0),
        (("2.00",), 0, "", "2.00", None, 0),
    ],
)
def test_the_highest_limits_win_and_pay_the_highest_that_lost(
    limits: tuple[str, ...], slots: int, winners: str, price: str, lowest: str | None, free: int
) -> None:
    cleared = clear(orders(*limits), slots, MINIMUM)
    assert cleared.winners == frozenset(winners.split())
    assert cleared.price == D(price)
    assert cleared.lowest == (None if lowest is None else D(lowest))
    assert cleared.free == free


def test_no_bidder_pays_above_its_limit_because_of_one_that_asked_for_too_many() -> None:
    many, few = Order("many", D("9.00"), 3, 0), Order("few", D("2.00"), 1, 1)
    cleared = clear([many, few], 2, MINIMUM)
    assert cleared.winners == {"few"}
    assert cleared.price == D("2.00")


def test_a_raise_that_still_loses_makes_everybody_pay_more() -> None:
    """Why the price is not what has to be beaten."""
    before = clear(orders("5.00", "1.50"), 1, MINIMUM)
    after = clear(orders("5.00", "4.00"), 1, MINIMUM)
    assert before.winners == after.winners == {"o0"}
    assert (before.price, after.price) == (D("1.50"), D("4.00"))
