"""Domain values as JSON and back, exactly: for recordings of what a decision saw (``service.recording``).

Every value that JSON lacks is an object with one key that starts with ``$``: ``$decimal``, ``$at`` (an aware instant),
``$s`` (a duration in microseconds), ``$enum``, ``$set``, ``$map``, and a dataclass as its name and its fields in order.
The name has the module before it (``lease.Traffic``): two modules may use one word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from autopilot.domain.time import MICROSECOND


class Codec:
    """Knows the dataclasses and enums that it may meet; any other type is a ``TypeError``."""

    def __init__(self, *types: type) -> None:
        self._types = {_name(kind): kind for kind in types}
        self._fields = {
            name: tuple(field.name for field in dataclasses.fields(kind) if field.init)
            for name, kind in self._types.items()
            if dataclasses.is_dataclass(kind)
        }

    def encode(self, value: object) -> Any:
        match value:
            case Enum():
                return {"$enum": [self._require_known(value), value.value]}
            case None | bool() | int() | float() | str():
                return value
            case Decimal():
                return {"$decimal": str(value)}
            case datetime():
                return {"$at": value.isoformat()}
            case timedelta():
                return {"$s": value // MICROSECOND}
            case tuple():
                return [self.encode(item) for item in value]
            case frozenset():
                return {"$set": sorted((self.encode(item) for item in value), key=repr)}
            case Mapping():
                return {"$map": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        name = self._require_known(value)
        return {f"${name}": [self.encode(getattr(value, field)) for field in self._fields[name]]}

    def decode(self, value: Any) -> Any:
        """Raises ``ValueError`` for what ``encode`` cannot have written."""
        if isinstance(value, list):
            return tuple(self.decode(item) for item in value)
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ValueError(f"not an encoded value: {value!r}")
        ((tag, body),) = value.items()
        return self._decode_tagged(tag, body)

    def _decode_tagged(self, tag: str, body: Any) -> Any:
        match tag:
            case "$decimal":
                return Decimal(body)
            case "$at":
                return datetime.fromisoformat(body)
            case "$s":
                return timedelta(microseconds=body)
            case "$set":
                return frozenset(self.decode(item) for item in body)
            case "$map":
                return {self.decode(key): self.decode(item) for key, item in body}
            case "$enum":
                return self._type(body[0])(body[1])
        kind = self._type(tag.removeprefix("$"))
        fields = self._fields[_name(kind)]
        if len(fields) != len(body):
            raise ValueError(f"{kind.__name__} has {len(fields)} fields, the recording {len(body)}: another version's")
        return kind(**{name: self.decode(item) for name, item in zip(fields, body, strict=True)})

    def _require_known(self, value: object) -> str:
        name = _name(type(value))
        if self._types.get(name) is not type(value):
            raise TypeError(f"a recording cannot hold a {type(value)!r}")
        return name

    def _type(self, name: str) -> type[Any]:
        if name not in self._types:
            raise ValueError(f"a recording holds no {name}")
        return self._types[name]


def _name(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
