"""What may be kept of an answer: kinds of values, and words that every answer may have. Never what tells one account
from another: ids, keys, labels, addresses."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import islice
from types import NoneType

from autopilot.providers.drift.shape import BOOLEAN, LIST, NULL, NUMBER, OBJECT, TEXT, Kind

UNNAMED = "(a name that is not kept)"
LONGEST_SAMPLE = 200
MOST_FIELDS = 8
DEEPEST = 2
MOST_DIGITS = 2
_KINDS: dict[type, Kind] = {
    NoneType: NULL,
    bool: BOOLEAN,
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: TEXT,
    list: LIST,
    dict: OBJECT,
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,27}")
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]{0,23}")


def kind_of(value: object) -> Kind:
    return _KINDS[type(value)]


def field_name(name: str) -> str:
    """The name, unless it may be no name: a market may have ids for the keys of an object."""
    digits = sum(char.isdigit() for char in name)
    return name if _NAME.fullmatch(name) and digits <= MOST_DIGITS else UNNAMED


def sample(value: object, *, is_word: bool = False) -> str:
    """The value as its kinds, ``{price: number}``. ``is_word``: it stands where only words of the market's own do, so
    that a short one may be shown."""
    if is_word and isinstance(value, str) and _WORD.fullmatch(value):
        return value
    return _kinds(value, DEEPEST)[:LONGEST_SAMPLE]


def _kinds(value: object, depth: int) -> str:
    if isinstance(value, dict) and value and depth:
        shown = (
            f"{field_name(name)}: {_kinds(inner, depth - 1)}" for name, inner in islice(value.items(), MOST_FIELDS)
        )
        return "{" + ", ".join(shown) + (", …}" if len(value) > MOST_FIELDS else "}")
    if isinstance(value, list) and value and depth:
        return f"[{_kinds(value[0], depth - 1)}]"
    return kind_of(value)
