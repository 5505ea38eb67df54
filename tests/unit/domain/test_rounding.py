"""Rounded tables add up, and nothing is shown where nothing is."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.money import ZERO, from_nano
from autopilot.domain.rounding import MOST_PLACES, places_for, round_parts

D = Decimal
amounts = st.integers(-(10**10), 10**10).map(from_nano)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(amounts, min_size=width, max_size=width), max_size=6)
)


@pytest.mark.parametrize(
    ("smallest", "places"),
    [("1", 2), ("0.01", 2), ("0.0099", 3), ("0.001", 3), ("0.0000011", 6), ("0.0000001", 6), ("-0.002", 3)],
)
def test_an_amount_is_not_shown_as_nothing(smallest: str, places: int) -> None:
    assert places_for([D(5), D(0), D(smallest)], 2) == places
    assert MOST_PLACES == 6


def test_without_amounts_there_are_as_few_places_as_asked_for() -> None:
    assert places_for([], 2) == places_for([D(0)], 2) == 2


def test_the_largest_remainder_is_rounded_up() -> None:
    assert round_parts([[D("0.014"), D("0.006")]], 2) == [[D("0.01"), D("0.01")]]
    assert round_parts([[D("0.004"), D("0.003"), D("0.003")]], 2) == [[D("0.01"), D("0.00"), D("0.00")]]
    assert round_parts([[D("-0.014"), D("-0.006")]], 2) == [[D("-0.01"), D("-0.01")]]


def test_what_a_column_was_shown_too_little_of_is_made_good_in_its_next_row() -> None:
    assert round_parts([[D("0.006"), D("0.004")], [D("0.004"), D("0.006")]], 2) == [
        [D("0.01"), D("0.00")],
        [D("0.00"), D("0.01")],
    ]


@given(tables, st.integers(0, 6))
def test_rows_and_columns_add_up(rows: list[list[Decimal]], places: int) -> None:
    unit = Decimal(1).scaleb(-places)
    shown = round_parts(rows, places)
    assert [len(row) for row in shown] == [len(row) for row in rows]
    exact = ZERO
    for number, row in enumerate(rows, 1):
        exact += sum(row, ZERO)
        total = sum((sum(each, ZERO) for each in shown[:number]), ZERO)
        assert abs(total - exact) <= unit / 2, "each running total is the rounded one"
    for row, cells in zip(rows, shown, strict=True):
        for part, cell in zip(row, cells, strict=True):
            assert cell == cell.quantize(unit)
            assert part or not cell, "nothing stays nothing"


@given(tables, st.integers(0, 6))
def test_no_cell_is_far_from_its_part(rows: list[list[Decimal]], places: int) -> None:
    unit = Decimal(1).scaleb(-places)
    for column in range(len(rows[0]) if rows else 0):
        part = sum((row[column] for row in rows), ZERO)
        cell = sum((row[column] for row in round_parts(rows, places)), ZERO)
        assert abs(cell - part) < 3 * unit
