"""Names of files as messages show them."""

from __future__ import annotations

import json
from collections.abc import Sequence

NAMES_SHOWN = 10


def show(name: str) -> str:
    """Harmless on a terminal, for any name."""
    return name if name.isprintable() else ascii(name)


def quote(name: str) -> str:
    """As written in a job file."""
    return json.dumps(show(name), ensure_ascii=False)


def show_names(names: Sequence[str]) -> str:
    shown = ", ".join(show(name) for name in sorted(names)[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"


def show_bytes(count: int) -> str:
    """``12 bytes``, ``3.4 kB``, ``200 MB``, ``1.3 GB``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count} bytes"
