"""Answers as JSON, and read from it again: exact, and without anything that the command line would wait for.

An answer is a dataclass (``record``). Money and fractions are decimal strings, instants ISO 8601 in UTC, durations
seconds. Members that are not known are passed over: a newer daemon may tell more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from autopilot.answers.scalars import Scalar

T = TypeVar("T")
Read = Callable[[Any], Any]


class Unreadable(ValueError):
    """JSON that is not the answer that was expected."""


def plain(value: object) -> Any:
    """A scalar that JSON can hold without losing anything."""
    if isinstance(value, date):  # an instant, too
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return format(value.normalize(), "f") if value else "0"
    return value


def to_json(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if (names := _members_of(kind)) is not None:
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {plain(key): to_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return plain(value)


_AS_IT_IS = frozenset((str, int, float, bool, NoneType))


@cache
def _members_of(kind: type) -> tuple[str, ...] | None:
    """None: it is no answer."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def from_json(kind: type[T], body: object) -> T:
    """Raises ``Unreadable``."""
    read: Callable[[object], T] = _reader(cast(Any, kind))
    return read(body)


@cache
def _reader(kind: Any) -> Read:
    """How a value of that annotation is read."""
    if is_dataclass(kind):
        return _read_members(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _parse(kind)
    args, origin = get_args(kind), get_origin(kind)
    if origin in (list, tuple):
        one = _reader(args[0])
        return lambda body: origin(map(one, _be(list, body)))
    if origin is dict:
        key, value = map(_reader, args)
        return lambda body: {key(name): value(each) for name, each in _be(dict, body).items()}
    if origin in (UnionType, Union) and NoneType in args:  # ``Union``: of a type that was annotated
        (there,) = (_reader(each) for each in args if each is not NoneType)
        return lambda body: None if body is None else there(body)
    raise TypeError(f"answers have no members of type {kind}")


def _read_members(kind: Any) -> Read:
    hints = get_type_hints(kind)
    members = [(each.name, _reader(hints[each.name]), each.default is MISSING) for each in fields(kind)]

    def read(body: object) -> object:
        given = _be(dict, body)
        lacking = [name for name, _, is_needed in members if is_needed and name not in given]
        if lacking:
            raise Unreadable(f"{kind.__name__} without {', '.join(lacking)}")
        return kind(**{name: value(given[name]) for name, value, _ in members if name in given})

    return read


def _be(kind: type[T], body: object, *others: type) -> T:
    if not isinstance(body, (kind, *others)) or (isinstance(body, bool) and kind is not bool):
        raise Unreadable(f"{str(body)[:60]!r} is not of type {kind.__name__}")
    return cast(T, body)


def _exact(text: str) -> Decimal:
    amount = Decimal(text)
    if not amount.is_finite():
        raise ValueError
    return amount


def _parse(parse: Callable[[str], T]) -> Callable[[object], T]:
    def read(body: object) -> T:
        try:
            return parse(_be(str, body))
        except (ValueError, InvalidOperation):
            raise Unreadable(f"{str(body)[:60]!r} cannot be read") from None

    return read


_SCALARS: Mapping[Any, Read] = {
    str: lambda body: _be(str, body),
    int: lambda body: _be(int, body),
    float: lambda body: _be(float, body, int),
    bool: lambda body: _be(bool, body),
    Decimal: _parse(_exact),
    datetime: _parse(datetime.fromisoformat),
    date: _parse(date.fromisoformat),
    Scalar: lambda body: None if body is None else _be(bool, body, str, int, float),
}
