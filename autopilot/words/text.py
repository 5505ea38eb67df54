"""Values as people read them. Text from a market or a job is never trusted as terminal control."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain.money import ZERO, show
from autopilot.domain.rounding import MOST_PLACES, places_for, round_parts
from autopilot.domain.time import show_duration

NONE = "-"
MONEY = ("POSTED", "ACCRUED", "RESERVED")
"""Columns: in the ledger; cost since the last posting; and what limits also count."""

VERDICTS = {"fine": "on track", "tight": "tight", "will_miss": "will miss"}
"""Verdict on a deadline, by its key in the API."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_COLOUR_OR_CONTROL = re.compile(
    r"(\x1b\[[0-9;]*m)"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?)?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def plain(value: object) -> str:
    """One line without control characters; ``-`` for nothing."""
    return NONE if value is None or value == "" else _CONTROL.sub("", str(value))


def harmless(output: str) -> str:
    """A job's output without terminal control but for colours, tabs and line ends."""
    return _COLOUR_OR_CONTROL.sub(lambda match: match[1] or "", output)


def colourless(output: str) -> str:
    """The same without colours."""
    return _COLOUR_OR_CONTROL.sub("", output)


def money(value: str | Decimal | None, places: int = 2) -> str:
    """``$1.20``. An amount too small for its places shows more of them rather than nothing."""
    if value is None:
        return NONE
    amount = Decimal(value)
    while places < 6 and amount and abs(amount) < Decimal(1).scaleb(-places):
        places += 1
    return show(amount, places)


class Amounts:
    """Columns of money whose cells and totals add up as they are shown.

    ``rows``: JSON or answers with an amount for each name; None counts as nothing. All cells have as many decimals: at
    least ``least``, and up to ``most`` so that no amount is shown as nothing.
    """

    def __init__(self, rows: Sequence[object], names: Sequence[str], least: int = 4, most: int = MOST_PLACES) -> None:
        self._amounts = [{name: _amount_of(row, name) for name in names} for row in rows]
        self._places = places_for((amount for row in self._amounts for amount in row.values()), least, most)

    def sum_columns(self, names: Sequence[str]) -> list[list[str]]:
        """A column for each name, then one for their sum; each ends with its total."""
        rows = round_parts([[row[name] for name in names] for row in self._amounts], self._places)
        rows = [[*row, sum(row, ZERO)] for row in rows]
        columns = [[row[column] for row in rows] for column in range(len(names) + 1)]
        return [[show(amount, self._places) for amount in (*column, sum(column, ZERO))] for column in columns]


def _amount_of(row: object, name: str) -> Decimal:
    return Decimal((row[name] if isinstance(row, Mapping) else getattr(row, name)) or 0)


def per_hour(value: str | Decimal | None) -> str:
    """``$0.31/h``, to a tenth of a cent where it has one."""
    if value is None:
        return NONE
    amount = Decimal(value)
    return money(value, 2 if amount == round(amount, 2) else 3) + "/h"


def instant(value: str | datetime | None) -> datetime | None:
    if not value:
        return None
    return (value if isinstance(value, datetime) else datetime.fromisoformat(value)).astimezone(UTC)


def when(value: str | datetime | None, now: datetime) -> str:
    """``5 min 2 s ago (2026-01-01 12:00:00 UTC)``."""
    at = instant(value)
    return NONE if at is None else f"{relative(value, now)} ({at:%Y-%m-%d %H:%M:%S} UTC)"


def relative(value: str | datetime | None, now: datetime) -> str:
    """``5 min 2 s ago``, ``in 2 h``."""
    at = instant(value)
    if at is None:
        return NONE
    return f"in {show_duration(at - now)}" if at > now else f"{show_duration(now - at)} ago"


def age(value: str | datetime | None, now: datetime) -> str:
    at = instant(value)
    return NONE if at is None else show_duration(now - at)


def clock_time(value: str | datetime | None) -> str:
    at = instant(value)
    return NONE if at is None else f"{at:%m-%d %H:%M:%S}"


def minute(value: str | datetime | None) -> str:
    """As ``clock_time``, without the seconds."""
    at = instant(value)
    return NONE if at is None else f"{at:%m-%d %H:%M}"


def span(seconds: float | None) -> str:
    return NONE if seconds is None else show_duration(timedelta(seconds=seconds))


def percent(value: str | float | Decimal | None) -> str:
    return NONE if value is None else f"{Decimal(str(value)):.0%}"


def words(code: object) -> str:
    """``will_miss`` → ``will miss``."""
    return plain(code).replace("_", " ")


def verdict(code: object) -> str:
    """``will_miss`` → ``will miss``; ``-`` for none."""
    return VERDICTS.get(str(code), plain(code))


def size(count: int | None) -> str:
    """``1.5 GB``; empty for None."""
    if count is None:
        return ""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def fields(values: Mapping[str, Any]) -> str:
    """``bid=0.31 floor=0.29``: exactly as they were recorded."""
    return " ".join(f"{plain(key)}={plain(value)}" for key, value in values.items())


def numbers(values: Mapping[str, Any]) -> str:
    """``slack 2 h 39 min, bid $0.31/h``: each with its unit, rounded; what is not known is left out."""
    return ", ".join(_number(key, value) for key, value in values.items() if value is not None)


_HOURLY = ("bid", "floor", "price", "price_to_win", "ceiling", "burn", "rebid", "from")
_DOLLARS = (
    "left",
    "reserve",
    "reserved",
    "committed",
    "cost",
    "would_be",
    "budget",
    "credit",
    "spent",
)
_DOLLARS_BEGIN = ("cost_of_", "held_for_", "enough_")
_LONG = re.compile(r"-?\d+\.\d{4,}(?:E-?\d+)?")


def _number(key: str, value: object) -> str:
    """The unit follows from the name; an id is never a number."""
    shown = plain(value)
    if key.endswith("_id") or not _is_number(shown):
        return f"{words(key)} {shown if key.endswith('_id') else words(value)}"
    if key.endswith("_s"):
        return f"{words(key[:-2])} {span(float(shown))}"
    if key.endswith("_per_h"):
        return f"{words(key[:-6])} {per_hour(shown)}"
    if key in _HOURLY or key.endswith(("_bid", "_price")):
        return f"{words(key)} {per_hour(shown)}"
    if key in _DOLLARS or key.endswith("_left") or key.startswith(_DOLLARS_BEGIN):
        return f"{words(key)} {money(shown)}"
    return f"{words(key)} {float(shown):.3g}" if _LONG.fullmatch(shown) else f"{words(key)} {shown}"


def _is_number(shown: str) -> bool:
    try:
        return Decimal(shown).is_finite()
    except ArithmeticError:
        return False


def place(row: Mapping[str, Any]) -> str:
    """The market, and its machine or pool: ``vastai machine 43567``, ``runpod (community)``.

    The id of a pool is the model of its GPU and what tells pools apart, between slashes.
    """
    _, *pool = plain(row.get("machine_id")).split("/")
    if not pool:
        return f"{plain(row.get('provider'))} machine {plain(row.get('machine_id'))}"
    named = ", ".join(part.lower() if part.isalpha() else part for part in pool if part != "-")
    return f"{plain(row.get('provider'))} ({named})" if named else plain(row.get("provider"))


def gpu(count: int, name: str) -> str:
    return f"{count}×{plain(name)}"
