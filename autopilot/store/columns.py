"""Columns made from a dataclass's own fields: a new field is a new column, and only its migration is left to write.

In the database the unit comes last in the name (``rate_nano``, ``work_done_us``); in Python the column's key is the
field's name, so that rows and records map one to one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, Boolean, Column, Date, Double
from sqlalchemy.types import TypeEngine

from autopilot.domain.actions import Note
from autopilot.domain.job import JobSpec
from autopilot.domain.money import Number
from autopilot.domain.readings import Readings
from autopilot.domain.start_faults import FailedStart
from autopilot.store.types import (
    Code,
    Duration,
    ExactNumber,
    FailedStartsJson,
    Instant,
    NamesJson,
    NanoUSD,
    NotesJson,
    NumbersJson,
    PlainText,
    ReadingsJson,
    SpecJson,
)

_TYPES: dict[Any, type[TypeEngine[Any]]] = {
    str: PlainText,
    int: BigInteger,
    bool: Boolean,
    float: Double,
    date: Date,
    datetime: Instant,
    timedelta: Duration,
    Decimal: NanoUSD,
    JobSpec: SpecJson,
    Readings: ReadingsJson,
    tuple[str, ...]: NamesJson,
    tuple[Note, ...]: NotesJson,
    tuple[FailedStart, ...]: FailedStartsJson,
    tuple[tuple[str, Number], ...]: NumbersJson,
}
_UNITS = {NanoUSD: "_nano", Duration: "_us"}


PATHS = "paths"
"""Where a table keeps which columns fill a record within the record: ``{column key: (field, field of it)}``."""

Paths = Mapping[str, tuple[str, str]]


def columns_of(
    record: type,
    *,
    leave_out: Collection[str] = (),
    not_money: Collection[str] = (),
    key: Collection[str] = (),
    paths: Paths = MappingProxyType({}),
) -> list[Column[Any]]:
    """One column per field of the dataclass ``record``, in order; ``paths`` name those of the records within it.

    ``leave_out``: fields that live elsewhere; ``not_money``: Decimals that are not dollars; ``key``: the primary key.
    """
    hints = get_type_hints(record)
    within = {group for group, _ in paths.values()}
    plain = {field.name: hints[field.name] for field in fields(record) if field.name not in within}
    nested = {name: get_type_hints(hints[group])[field] for name, (group, field) in paths.items()}
    return [
        _column(name, hint, is_money=name not in not_money, is_key=name in key)
        for name, hint in (plain | nested).items()
        if name not in leave_out
    ]


def _column(name: str, hint: Any, *, is_money: bool, is_key: bool) -> Column[Any]:
    choices = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    (plain,) = (choice for choice in choices if choice is not NoneType)
    kind = _type_of(plain) if is_money or plain is not Decimal else ExactNumber()
    return Column(
        name + _UNITS.get(type(kind), ""),
        kind,
        key=name,
        nullable=NoneType in choices,
        primary_key=is_key,
        autoincrement=False,
    )


def _type_of(hint: Any) -> TypeEngine[Any]:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Code(hint)
    return _TYPES[hint]()
