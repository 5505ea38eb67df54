"""How a row differs from its shape. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from autopilot.domain.drift import DriftKind
from autopilot.providers.drift.samples import field_name, kind_of, sample
from autopilot.providers.drift.shape import LIST, OBJECT, TEXT, Field, Shape

MOST_ROWS = 100
"""Of one list: as many as any market puts on a page."""
MOST_NEW = 32
"""New fields of one object; a market could name a million."""
_ABSENT: Any = object()
_NEW = Field(frozenset(), is_read=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """``field``: its path within the answer; empty for the row as a whole. ``sample``: of its value, nothing of it."""

    answer: str
    field: str
    kind: DriftKind
    is_read: bool
    is_money: bool
    sample: str


def compare(shape: Shape, row: object) -> tuple[Finding, ...]:
    """All differences, in the order of the shape. Takes any JSON."""
    return tuple(_Comparison(shape.answer).row(shape, row))


class _Comparison:
    """Where in an answer it is: names of the objects around, and the name under which findings are kept."""

    def __init__(self, answer: str, path: str = "") -> None:
        self._answer = answer
        self._path = path

    def row(self, shape: Shape, row: object) -> list[Finding]:
        if not isinstance(row, dict):
            whole = Field(frozenset({OBJECT}), is_read=True)
            return [self._finding("", whole, DriftKind.TYPE, sample(row))]
        findings: list[Finding] = []
        for name, field in shape.fields.items():
            value = row.get(name, _ABSENT)
            if value is not _ABSENT:
                findings += self._value(name, field, value)
            elif not field.may_be_missing:
                findings.append(self._finding(name, field, DriftKind.MISSING, ""))
        if not shape.is_open:
            new = ((name, value) for name, value in row.items() if name not in shape.fields)
            findings += (
                self._finding(field_name(name), _NEW, DriftKind.NEW, sample(value))
                for name, value in islice(new, MOST_NEW)
            )
        return findings

    def _value(self, name: str, field: Field, value: Any) -> list[Finding]:
        kind = kind_of(value)
        if kind not in field.kinds:
            return [self._finding(name, field, DriftKind.TYPE, sample(value))]
        if kind is TEXT and not _is_known(field, value):
            return [self._finding(name, field, DriftKind.VALUE, sample(value, is_word=bool(field.words)))]
        if field.inside is None or kind not in (OBJECT, LIST):
            return []
        inner = self._inside(name, field.inside, kind is LIST)
        rows = value[:MOST_ROWS] if kind is LIST else (value,)
        return [finding for row in rows for finding in inner.row(field.inside, row)]

    def _inside(self, name: str, shape: Shape, is_list: bool) -> _Comparison:
        if shape.answer:
            return _Comparison(shape.answer)
        return _Comparison(self._answer, f"{self._path}{name}{'[]' if is_list else ''}.")

    def _finding(self, name: str, field: Field, kind: DriftKind, shown: str) -> Finding:
        path = (self._path + name).removesuffix(".")
        return Finding(self._answer, path, kind, field.is_read, field.is_money, shown)


def _is_known(field: Field, text: str) -> bool:
    if field.words:
        return text in field.words
    return field.form is None or field.form.fullmatch(text) is not None
