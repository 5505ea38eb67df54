"""The provider's query language: ``{"field": {"op": value}}``, values often numbers written as strings."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autopilot_lab.sandbox.vastai.replies import Json, invalid_body

Row = Json
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
OPERATORS = frozenset({"eq", "neq", "in", "notin", *_ORDERED})


def matches(value: object, conditions: object) -> bool:
    """Whether ``value`` meets every condition. Nothing is greater or less than null.

    Raises ``Failure`` (400) for an unknown operator.
    """
    if not isinstance(conditions, Mapping):
        return _equal(value, conditions)
    return all(_holds(value, name, operand) for name, operand in conditions.items())


def sort_rows(rows: Iterable[Row], order: Iterable[tuple[str, str]]) -> list[Row]:
    """Sorted by several columns, ``asc`` or ``desc``; nulls come last either way."""
    result = list(rows)
    for column, direction in reversed(list(order)):
        known = [row for row in result if row.get(column) is not None]
        unknown = [row for row in result if row.get(column) is None]
        known.sort(key=lambda row: _sort_key(row[column]), reverse=direction == "desc")
        result = known + unknown
    return result


def _holds(value: object, name: str, operand: object) -> bool:
    if name == "eq":
        return _equal(value, operand)
    if name == "neq":
        return not _equal(value, operand)
    if name in ("in", "notin"):
        choices = operand if isinstance(operand, list) else [operand]
        return any(_equal(value, choice) for choice in choices) == (name == "in")
    if name not in _ORDERED:
        raise invalid_body()
    left, right = _coerce(value), _coerce(operand)
    comparable = isinstance(left, float) and isinstance(right, float)
    comparable = comparable or (isinstance(left, str) and isinstance(right, str))
    return comparable and _ORDERED[name](left, right)


def _equal(value: object, operand: object) -> bool:
    left, right = _coerce(value), _coerce(operand)
    if isinstance(right, bool):
        # An unset flag counts as false.
        return bool(left) is right
    return left == right


def _coerce(value: object) -> object:
    """Numbers become floats, also those in strings; "true" and "false" become booleans."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    return _coerce_text(str(value))


@functools.lru_cache(maxsize=4096)
def _coerce_text(text: str) -> object:
    """A search compares the same few words with every machine there is."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return float(text) if _NUMBER.fullmatch(text) else text


def _sort_key(value: object) -> tuple[int, float, str]:
    coerced = _coerce(value)
    if isinstance(coerced, bool | float):
        return 0, float(coerced), ""
    return 1, 0.0, str(coerced)
