"""The bill of a machine in words: whether it is believed, and what is waited for."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from autopilot.words import text

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


def tell_wait(waits_for: str | None, posted: Decimal, *, is_billed: bool, again: datetime | None = None) -> str:
    """Whether the bill is believed, and if not, why. ``again``: when it is checked once more."""
    if waits_for is None:
        return UNCONFIRMED if not is_billed and posted else "complete"
    said = WAITS.get(waits_for, text.plain(waits_for))
    return f"{said} at {text.minute(again)} UTC" if again else said
