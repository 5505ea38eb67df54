"""Records and rows map one to one by field name; the column types do the converting.

A record within a record (``lease.agent.boot``) lies in columns of the same row: the table's ``PATHS`` say where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, get_type_hints

from sqlalchemy import Table

from autopilot.store.columns import PATHS

R = TypeVar("R")


def values_of(table: Table, record: Any, **others: Any) -> dict[str, Any]:
    """What to write for ``record``, by column key; ``others`` are columns that no field of it fills."""
    return others | {key: read(record) for key, read in _readers(table) if key not in others}


def record_of(kind: type[R], table: Table, row: Sequence[Any], **others: Any) -> R:
    """The record in a row of ``select(table)``; ``others`` are fields that live in other tables."""
    hashable: Any = kind
    layout = _layout(hashable, table)
    values = {name: row[at] for name, at in layout.plain}
    for group, part, places in layout.nested:
        values[group] = part(**{name: row[at] for name, at in places})
    return kind(**values, **others)


class _Layout(NamedTuple):
    """Where in a row of its table the fields of a record lie."""

    plain: tuple[tuple[str, int], ...]
    nested: tuple[tuple[str, type, tuple[tuple[str, int], ...]], ...]


@cache
def _readers(table: Table) -> tuple[tuple[str, attrgetter[Any]], ...]:
    paths = table.info.get(PATHS, {})
    keys = [column.key for column in table.c if column is not table.autoincrement_column]
    return tuple((key, attrgetter(".".join(paths.get(key, (key,))))) for key in keys)


@cache
def _layout(kind: type, table: Table) -> _Layout:
    paths = table.info.get(PATHS, {})
    names = {field.name for field in fields(kind)}
    hints = get_type_hints(kind) if paths else {}
    places = {key: at for at, key in enumerate(table.c.keys())}
    plain = tuple((key, at) for key, at in places.items() if key in names and key not in paths)
    nested = tuple(
        (group, hints[group], tuple((field, places[key]) for key, (of, field) in paths.items() if of == group))
        for group in dict.fromkeys(group for group, _ in paths.values())
    )
    return _Layout(plain, nested)
