"""Column types: each keeps one domain type exact on every database, and refuses what it cannot keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import JSON, BigInteger, DateTime, Dialect, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from autopilot.domain.actions import Note
from autopilot.domain.job import JobSpec
from autopilot.domain.money import Number, from_nano, to_nano
from autopilot.domain.readings import Readings
from autopilot.domain.start_faults import FailedStart

_MICROSECOND = timedelta(microseconds=1)
_INSTANT_LENGTH = len("2026-01-01T00:00:00.000000Z")


class NanoUSD(TypeDecorator[Decimal]):
    """Dollars (or $/h) as whole nano-dollars; a float or a finer amount is refused. NUMERIC on SQLite is a double."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        if value is None:
            return None
        if not isinstance(value, Decimal):
            raise TypeError(f"money is stored from a Decimal, not from {value!r}")
        return to_nano(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else from_nano(int(value))


class PlainText(TypeDecorator[str]):
    """Text as it is; PostgreSQL alone cannot keep a NUL (a market's message may hold one) and gets U+FFFD for it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or dialect.name == "sqlite":
            return value
        return value.replace("\0", "\ufffd")


class ExactNumber(TypeDecorator[Decimal]):
    """A Decimal that is not money (gigabytes, a share), as its digits."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


class Instant(TypeDecorator[datetime]):
    """An aware instant; a naive one is refused. On SQLite a UTC text of fixed width, so that it sorts."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(_INSTANT_LENGTH) if dialect.name == "sqlite" else self.impl_instance)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant needs a time zone: {value!r}")
        utc = value if value.tzinfo is UTC else value.astimezone(UTC)
        if dialect.name == "sqlite":
            return utc.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        return utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        instant = datetime.fromisoformat(value) if isinstance(value, str) else value
        return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


class Duration(TypeDecorator[timedelta]):
    """A timedelta as whole microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:
        return None if value is None else value // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> timedelta | None:
        return None if value is None else int(value) * _MICROSECOND  # a sum of PostgreSQL's is no int


class Code(TypeDecorator[StrEnum]):
    """A member of ``codes`` as its value. Plain text in the database: a new code needs no migration."""

    impl = Text
    cache_ok = True

    def __init__(self, codes: type[StrEnum]) -> None:
        super().__init__()
        self.codes = codes
        self._members = {member.value: member for member in codes}  # calling an enum costs as much as all the rest

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else self.codes(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self._members.get(value) or self.codes(value)


class SpecJson(TypeDecorator[JobSpec]):
    """A job's spec; Decimals are strings, durations ISO 8601."""

    impl = JSON
    cache_ok = True
    _adapter = TypeAdapter(JobSpec)

    def process_bind_param(self, value: JobSpec | None, dialect: Dialect) -> Any:
        return None if value is None else self._adapter.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> JobSpec | None:
        return None if value is None else self._adapter.validate_python(value)


class NamesJson(TypeDecorator[tuple[str, ...]]):
    """Names, in order."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[str, ...] | None:
        return None if value is None else tuple(value)


class ReadingsJson(TypeDecorator[Readings]):
    """What a machine has read of itself last."""

    impl = JSON(none_as_null=True)
    cache_ok = True
    _adapter = TypeAdapter(Readings)

    def process_bind_param(self, value: Readings | None, dialect: Dialect) -> Any:
        return None if value is None else self._adapter.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Readings | None:
        return None if value is None else self._adapter.validate_python(value)


class FailedStartsJson(TypeDecorator[tuple[FailedStart, ...]]):
    """Machines on which a job never ran; Decimals are strings."""

    impl = JSON
    cache_ok = True
    _adapter = TypeAdapter(tuple[FailedStart, ...])

    def process_bind_param(self, value: tuple[FailedStart, ...] | None, dialect: Dialect) -> Any:
        return self._adapter.dump_python(value or (), mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[FailedStart, ...]:
        return self._adapter.validate_python(value)


class NumbersJson(TypeDecorator[tuple[tuple[str, Number], ...]]):
    """Named numbers as ``[[name, value], …]``."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return _dump_numbers(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[tuple[str, Number], ...]:
        return _load_numbers(value)


class NotesJson(TypeDecorator[tuple[Note, ...]]):
    """Notes as ``[[topic, [[name, value], …]], …]``."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return [[note.topic, _dump_numbers(note.numbers)] for note in value]

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[Note, ...]:
        return tuple(Note(topic, _load_numbers(numbers)) for topic, numbers in value)


def _dump_numbers(numbers: Sequence[tuple[str, Number]]) -> list[list[Any]]:
    return [[name, _dump_number(value)] for name, value in numbers]


def _load_numbers(numbers: Any) -> tuple[tuple[str, Number], ...]:
    return tuple((name, _load_number(value)) for name, value in numbers)


def _dump_number(value: Number) -> Any:
    """JSON has one kind of number and no infinity: Decimals and such floats are tagged."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _load_number(value: Any) -> Number:
    match value:
        case {"decimal": text}:
            return Decimal(text)
        case {"float": text}:
            return float(text)
    return value  # type: ignore[no-any-return]
