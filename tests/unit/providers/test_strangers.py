"""Whose a row is, told by its name alone."""

from __future__ import annotations

import pytest

from autopilot.ports.provider import MarketUnknown
from autopilot.providers.strangers import each_once, is_strangers, says_whose


@pytest.mark.parametrize(
    ("row", "says", "is_theirs"),
    [
        ({"name": "notebook"}, True, True),
        ({"name": ""}, True, True),
        ({"name": "ap1.x.01"}, True, False),
        ({"name": None}, False, False),
        ({"name": 7}, False, False),
        ({}, False, False),
    ],
)
def test_a_row_that_says_no_name_may_be_ours(row: dict[str, object], says: bool, is_theirs: bool) -> None:
    assert says_whose(row, "name") is says
    assert is_strangers(row, "name") is is_theirs


def test_where_null_means_no_name_it_is_none_of_ours() -> None:
    assert is_strangers({"label": None}, "label", may_be_null=True)
    assert not is_strangers({}, "label", may_be_null=True)


def test_only_a_stranger_s_row_may_come_twice() -> None:
    def once(*rows: tuple[str, str]) -> list[tuple[str, str]]:
        return each_once(rows, lambda row: row[0], lambda row: row[1])

    assert once(("1", "notebook"), ("2", "ap1.x"), ("1", "notebook")) == [("1", "notebook"), ("2", "ap1.x")]
    for other in ("ap1.x", "notebook"):
        with pytest.raises(MarketUnknown, match="twice"):
            once(("2", other), ("2", "ap1.x"))
