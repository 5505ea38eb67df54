"""Rows of other programs and colleagues in the lists of the same account. Nothing in them may hide ours: a stranger's
row needs only its id and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from autopilot.domain.labels import LABEL_PREFIX
from autopilot.ports.provider import MarketUnknown

T = TypeVar("T")


def is_ours(name: str) -> bool:
    """Whether an autopilot may have given that name, whichever."""
    return name.startswith(LABEL_PREFIX)


def says_whose(row: Mapping[str, Any], field: str, *, may_be_null: bool = False) -> bool:
    """Whether the row has a name in ``field``. One without may be ours.

    ``may_be_null``: this market writes null for no name, and ours have one.
    """
    name = row.get(field, 0)
    return isinstance(name, str) or (may_be_null and name is None)


def is_strangers(row: Mapping[str, Any], field: str, *, may_be_null: bool = False) -> bool:
    """Whether the row says a name that is none of ours."""
    return says_whose(row, field, may_be_null=may_be_null) and not is_ours(row[field] or "")


def each_once(rows: Iterable[T], row_id: Callable[[T], str], name: Callable[[T], str]) -> list[T]:
    """A list may name a stranger's twice. Raises ``MarketUnknown`` if it does so with one of ours."""
    found: dict[str, T] = {}
    for row in rows:
        known = found.setdefault(row_id(row), row)
        if known is not row and (is_ours(name(known)) or is_ours(name(row))):
            raise MarketUnknown(f"the list names {row_id(row)} twice")
    return list(found.values())
