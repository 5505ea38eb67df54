"""The options that a decision weighed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.words import text

Row = Mapping[str, Any]

OPTION = "option"
"""Topic of the notes that weigh one option."""


def tell_option(option: Row) -> tuple[str, ...]:
    answer = f"refused: {text.plain(option['refused'])}" if option.get("refused") else ""
    return (
        f"  {text.plain(option['option']).replace('_', ' ')}",
        text.money(option.get("cost"), 4),
        text.per_hour(option.get("bid")),
        text.place(option) if option.get("provider") else text.NONE,
        "chosen" if option.get("chosen") else answer,
    )
