"""The shape of an answer: its fields, which of them the adapter reads, and what may stand in each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from types import NoneType


class JsonKind(StrEnum):
    """What JSON tells apart."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    LIST = "list"
    OBJECT = "object"


NULL, BOOLEAN, NUMBER, TEXT, LIST, OBJECT = JsonKind

KINDS: Mapping[type, JsonKind] = {
    NoneType: NULL,
    bool: BOOLEAN,
    int: NUMBER,
    float: NUMBER,
    Decimal: NUMBER,
    str: TEXT,
    list: LIST,
    dict: OBJECT,
}


@dataclass(frozen=True, slots=True)
class Field:
    """``words``: all texts that are known, empty if any may come; ``form``: what every text matches as a whole.

    ``inside``: the shape of an object, or of each element of a list; None: not compared.
    """

    kinds: frozenset[JsonKind]
    is_read: bool
    is_money: bool = False
    may_be_missing: bool = False
    words: frozenset[str] = frozenset()
    form: re.Pattern[str] | None = None
    inside: AnswerShape | None = None
    plain: frozenset[type] = field(init=False, repr=False, compare=False)
    """Python's types of which any value will do. Most values are of one, and need no further look."""

    def __post_init__(self) -> None:
        looked_at = {TEXT} if self.words or self.form is not None else set()
        looked_at |= {OBJECT, LIST} if self.inside is not None else set()
        plain = frozenset(kind for kind, name in KINDS.items() if name in self.kinds - looked_at)
        object.__setattr__(self, "plain", plain)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerShape:
    """``answer``: the name under which differences are kept; empty for a part of the answer around it.

    ``is_open``: it may have other fields too, which mean nothing.
    """

    answer: str
    fields: Mapping[str, Field]
    is_open: bool = False


def read(
    names: str,
    *kinds: JsonKind,
    money: bool = False,
    optional: bool = False,
    words: str = "",
    form: str = "",
    inside: AnswerShape | None = None,
) -> dict[str, Field]:
    """Fields that the adapter reads. ``names`` and ``words`` are separated by spaces; ``form`` is a regular expression.

    ``money``: what we pay comes from it.
    """
    pattern = re.compile(form, re.DOTALL) if form else None
    made = Field(frozenset(kinds), True, money, optional, frozenset(words.split()), pattern, inside)
    return dict.fromkeys(names.split(), made)


def ignore(names: str, *kinds: JsonKind, optional: bool = False) -> dict[str, Field]:
    """Fields that are known to be there, and that the adapter does not look at."""
    return dict.fromkeys(names.split(), Field(frozenset(kinds), False, may_be_missing=optional))
