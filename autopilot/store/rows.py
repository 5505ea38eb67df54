"""Records and rows map one to one by field name; the column types do the converting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Table

R = TypeVar("R")


def values_of(table: Table, record: Any, **others: Any) -> dict[str, Any]:
    """What to write for ``record``, by column key; ``others`` are columns that no field of it fills."""
    return others | {
        column.key: getattr(record, column.key)
        for column in table.c
        if column.key not in others and column is not table.autoincrement_column
    }


def record_of(kind: type[R], table: Table, row: Sequence[Any], **others: Any) -> R:
    """The record in a row of ``select(table)``; ``others`` are fields that live in other tables."""
    by_key = dict(zip(table.c.keys(), row, strict=True))
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in by_key.items() if key in names}, **others)
