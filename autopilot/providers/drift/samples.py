"""What may be kept of an answer: kinds of values, and words that every answer may have. Never what tells one account
from another: ids, keys, labels, addresses."""

from __future__ import annotations

import re

from autopilot.providers.drift.shape import KINDS, JsonKind

UNNAMED = "(a name that is not kept)"
MOST_DIGITS = 2
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,27}")
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]{0,23}")


def kind_of(value: object) -> JsonKind:
    return KINDS[type(value)]


def field_name(name: str) -> str:
    """The name, unless it may be no name: a market may have ids for the keys of an object."""
    digits = sum(char.isdigit() for char in name)
    return name if _NAME.fullmatch(name) and digits <= MOST_DIGITS else UNNAMED


def sample(value: object, *, is_word: bool = False) -> str:
    """The kind of the value, ``object of 3`` or ``list of text``: names inside an object may be labels, too.

    ``is_word``: only the market's own words occur in its place, so a short one may be shown.
    """
    if is_word and isinstance(value, str) and _WORD.fullmatch(value):
        return value
    if isinstance(value, dict):
        return f"object of {len(value)}"
    if isinstance(value, list) and value:
        return f"list of {kind_of(value[0])}"
    return kind_of(value)
