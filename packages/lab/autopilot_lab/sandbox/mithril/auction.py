"""One round of the auction: who wins, and what all of them pay. Pure.

Limits decide who wins, and the highest losing limit sets the price.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Order:
    """``limit``: $/h for one machine. ``arrival``: the lower came first."""

    id: str
    limit: Decimal
    quantity: int
    arrival: int


@dataclass(frozen=True)
class Cleared:
    """``price``: $/h of one machine. ``lowest``: the lowest limit that won; None: there is no winner."""

    winners: frozenset[str]
    price: Decimal
    lowest: Decimal | None
    free: int


def clear(orders: Iterable[Order], slots: int, minimum: Decimal) -> Cleared:
    """An order gets all of its machines or none; one that does not fit lets smaller ones pass. Of equals the older."""
    winners: list[Order] = []
    price, free = minimum, slots
    for order in sorted(orders, key=lambda each: (-each.limit, each.arrival)):
        if order.limit < minimum:
            continue
        if order.quantity <= free:
            winners.append(order)
            free -= order.quantity
        else:
            price = max(price, order.limit)
    # What loses only because it asks for many must not make anybody pay more than his limit.
    lowest = min((order.limit for order in winners), default=None)
    capped = price if lowest is None else min(price, lowest)
    return Cleared(frozenset(order.id for order in winners), capped, lowest, free)
