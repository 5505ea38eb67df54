"""Tolerant readings of single JSON values: a value that cannot be what it should be reads as None."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from autopilot.domain.money import NANO

LARGEST = Decimal(10) ** 12
DEAREST = Decimal(1000)
"""$/h, $/GB or $/GB-month."""
LAST_EPOCH_S = 253_402_300_799


class Unreadable(ValueError):
    """The text is not JSON, or not JSON that can be believed."""


def _decimal(literal: str) -> Decimal | None:
    try:
        return Decimal(literal)
    except InvalidOperation:
        return None


_JSON = json.JSONDecoder(parse_float=_decimal, parse_constant=lambda _: None)


def decode(text: str) -> Any:
    """JSON with fractions as ``Decimal``; NaN and infinities read as None. Raises ``Unreadable``."""
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable("not JSON") from error


def number(value: object) -> Decimal | None:
    """A finite number of sane size, also from a string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = _decimal(value.strip()) if len(value) <= 64 else None
    elif isinstance(value, int):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite() or not -LARGEST < value < LARGEST:
        return None
    return value


def dollars(value: object) -> Decimal | None:
    """A number as whole nano-dollars; the market sends doubles with noise in the last digits."""
    read = number(value)
    return None if read is None else read.quantize(NANO, ROUND_HALF_EVEN)


def price(value: object) -> Decimal | None:
    """A price in dollars: not negative, and below what anybody charges; beyond that it is noise or a trap."""
    read = dollars(value)
    return None if read is None or not 0 <= read <= DEAREST else read


def integer(value: object) -> int | None:
    read = number(value)
    return int(read) if read is not None and read == int(read) else None


def identifier(value: object) -> str | None:
    """A positive whole number, as the text under which we keep it."""
    read = integer(value)
    return str(read) if read is not None and read > 0 else None


def label(value: object) -> str:
    """As sent, but without what no database takes."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def text(value: object) -> str:
    """One trimmed line without control characters; empty for anything that is no string."""
    if not isinstance(value, str):
        return ""
    if not value.isprintable():
        value = "".join(char if char.isprintable() else " " for char in value)
    return " ".join(value.split())


def boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    read = number(value)
    return {Decimal(0): False, Decimal(1): True}.get(read) if read is not None else None


def instant(value: object) -> datetime | None:
    """Epoch seconds as aware UTC."""
    read = number(value)
    if read is None or not 0 < read <= LAST_EPOCH_S:
        return None
    return datetime.fromtimestamp(float(read), UTC)


def timestamp(value: object) -> datetime | None:
    """An ISO 8601 text as aware UTC; one without an offset is taken to be UTC."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        read = datetime.fromisoformat(value.strip())
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def plain(value: Decimal) -> int | float:
    """For sending: the shortest double of a decimal of at most 15 digits is written as that decimal."""
    whole = integer(value)
    return float(value) if whole is None else whole


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
