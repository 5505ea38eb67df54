"""What time costs on the paper market: arithmetic of its own, because the ledger is held against it."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

_HOUR = 3_600_000_000
"""In microseconds."""


def cost_of(per_hour: Decimal, start: datetime, end: datetime) -> Decimal:
    """Dollars at ``per_hour`` ($/h) from ``start`` to ``end``, half-even to a nano-dollar."""
    micros = (end - start) // timedelta(microseconds=1)
    return Decimal(round(Fraction(per_hour) * micros * 1_000_000_000 / _HOUR)).scaleb(-9)
