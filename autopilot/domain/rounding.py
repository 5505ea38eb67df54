"""Amounts of a table rounded so that what is shown adds up, down the columns and along the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from autopilot.domain.money import ZERO

MOST_PLACES = 6


def places_for(amounts: Iterable[Decimal], least: int, most: int = MOST_PLACES) -> int:
    """Decimals from ``least`` to ``most``, as many as keep each amount from being shown as nothing."""
    smallest = min((abs(amount) for amount in amounts if amount), default=Decimal(1))
    places = least
    while places < most and smallest < Decimal(1).scaleb(-places):
        places += 1
    return places


def round_parts(rows: Iterable[Sequence[Decimal]], places: int) -> list[list[Decimal]]:
    """Each row's parts, rounded. Their sums add up to the rounded sum of all rows; nothing stays nothing.

    A row's sum is what the rounded running total grows by. Its parts share that out, and what a column was shown too
    little of is made good in its next row.
    """
    unit = Decimal(1).scaleb(-places)
    total, shown = ZERO, ZERO
    owed: list[Decimal] = []
    table: list[list[Decimal]] = []
    for row in rows:
        owed = owed or [ZERO] * len(row)
        total += sum(row, ZERO)
        due = total.quantize(unit, ROUND_HALF_EVEN) - shown
        shown += due
        filled = [column for column, part in enumerate(row) if part]
        wanted = [row[column] + owed[column] for column in filled]
        cells = [ZERO.quantize(unit)] * len(row)
        for column, cell, exact in zip(filled, _share(due, wanted, unit), wanted, strict=True):
            cells[column], owed[column] = cell, exact - cell
        table.append(cells)
    return table


def _share(due: Decimal, wanted: Sequence[Decimal], unit: Decimal) -> list[Decimal]:
    """``due``, in whole units, near to what is wanted: the largest remainders are rounded up."""
    cells = [part.quantize(unit, ROUND_FLOOR) for part in wanted]
    left = int((due - sum(cells, ZERO)) / unit)
    by_remainder = sorted(range(len(cells)), key=lambda column: cells[column] - wanted[column])
    for rank, column in enumerate(by_remainder):
        more, extra = divmod(left, len(cells))
        cells[column] += unit * (more + (rank < extra))
    return cells
