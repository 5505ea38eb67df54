"""The bill of a machine in words: whether it is believed, and what is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from autopilot.words import text

Row = Mapping[str, Any]

WAITS = {
    "its_end": "the machine still exists",
    "first_look": "not checked yet",
    "no_bill": "no line yet",
    "periods_missing": "does not cover its lifetime yet",
    "lines_missing": "a line is missing",
    "too_low": "lower than the metered cost",
    "second_look": "second check due",
}
UNCONFIRMED = "not confirmed by a bill"
"""Nothing is pending, and the market has shown no line: our own figures are final."""


def tell_wait(row: Row) -> str:
    """Whether the bill is believed, and if not, why."""
    code = row.get("waits_for")
    if code is None:
        return UNCONFIRMED if row.get("invoiced") is None and Decimal(row["posted"] or 0) else "complete"
    said = WAITS.get(code, text.plain(code))
    return f"{said} at {text.minute(row['second_look_at'])} UTC" if row.get("second_look_at") else said
