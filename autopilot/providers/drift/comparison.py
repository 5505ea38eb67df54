"""How a row differs from its shape. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autopilot.domain.drift import DriftKind
from autopilot.providers.drift.samples import field_name, kind_of, sample
from autopilot.providers.drift.shape import LIST, OBJECT, TEXT, AnswerShape, Field

MOST_ROWS = 100
"""Rows of one list: as many as any market puts on a page. A row of a hundred fields takes about 30 microseconds."""
MOST_NEW = 32
"""New fields of one object; a market could name a million."""
MOST_DIFFERENCES = 2000
"""Limit for one answer; as many new fields in each of as many rows within rows would take a second."""
_ABSENT: Any = object()
_NEW = Field(frozenset(), is_read=False)


@dataclass(frozen=True, slots=True)
class RowDifference:
    """``field``: its path within the answer; empty for the row as a whole. ``sample``: of its value, nothing of it."""

    answer: str
    field: str
    kind: DriftKind
    is_read: bool
    is_money: bool
    sample: str


def compare(shape: AnswerShape, row: object) -> tuple[RowDifference, ...]:
    """All differences, ``MOST_DIFFERENCES`` at most, in the order of the shape. Takes any JSON."""
    return tuple(islice(_Comparison(shape.answer).row(shape, row), MOST_DIFFERENCES))


class _Comparison:
    """Where in an answer it is: names of the objects around, and the name under which differences are kept."""

    def __init__(self, answer: str, path: str = "") -> None:
        self._answer = answer
        self._path = path

    def row(self, shape: AnswerShape, row: object) -> Iterator[RowDifference]:
        if not isinstance(row, dict):
            whole = Field(frozenset({OBJECT}), is_read=True)
            yield self._difference("", whole, DriftKind.TYPE, sample(row))
            return
        for name, field in shape.fields.items():
            value = row.get(name, _ABSENT)
            if type(value) in field.plain:
                continue
            if value is not _ABSENT:
                yield from self._value(name, field, value)
            elif not field.may_be_missing:
                yield self._difference(name, field, DriftKind.MISSING, "")
        if not shape.is_open:
            new = (name for name in row if name not in shape.fields)
            for name in islice(new, MOST_NEW):
                yield self._difference(field_name(name), _NEW, DriftKind.NEW, sample(row[name]))

    def _value(self, name: str, field: Field, value: Any) -> Iterator[RowDifference]:
        kind = kind_of(value)
        if kind not in field.kinds:
            yield self._difference(name, field, DriftKind.TYPE, sample(value))
        elif kind is TEXT and not _is_known(field, value):
            yield self._difference(name, field, DriftKind.VALUE, sample(value, is_word=bool(field.words)))
        elif field.inside is not None and kind in (OBJECT, LIST):
            inner = self._inside(name, field.inside, kind is LIST)
            for row in islice(value, MOST_ROWS) if kind is LIST else (value,):
                yield from inner.row(field.inside, row)

    def _inside(self, name: str, shape: AnswerShape, is_list: bool) -> _Comparison:
        if shape.answer:
            return _Comparison(shape.answer)
        return _Comparison(self._answer, f"{self._path}{name}{'[]' if is_list else ''}.")

    def _difference(self, name: str, field: Field, kind: DriftKind, shown: str) -> RowDifference:
        path = (self._path + name).removesuffix(".")
        return RowDifference(self._answer, path, kind, field.is_read, field.is_money, shown)


def _is_known(field: Field, text: str) -> bool:
    if field.words:
        return text in field.words
    return field.form is None or field.form.fullmatch(text) is not None
