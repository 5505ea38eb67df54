"""The customer's prepaid credit: what was paid in, less what every meter ever counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from autopilot_lab.sandbox.market.metering import Meter, to_decimal
from autopilot_lab.sandbox.units import NANO

_MICROSECONDS_PER_HOUR = 3_600_000_000
_HORIZON = timedelta(days=3650)


class PrepaidCredit:
    def __init__(self, credit: Decimal, meters: Callable[[], Iterable[Meter]]) -> None:
        self._paid_in = Fraction(credit)
        self._meters = meters

    def credit(self, now: datetime) -> Decimal:
        """May be negative: disks go on costing after everything has stopped."""
        return to_decimal(self._exact(now), NANO)

    def set_credit(self, amount: Decimal, now: datetime) -> None:
        self._paid_in += Fraction(amount) - self._exact(now)

    def empty_at(self, now: datetime) -> datetime | None:
        """When the credit runs out at the present burn; ``None`` for never, ``now`` if it already has."""
        credit = self._exact(now)
        burn = sum((meter.burn() for meter in self._meters()), Fraction(0))
        if credit <= 0:
            return now
        if burn == 0 or credit / burn > _HORIZON.days * 24:
            return None
        exact = credit / burn * _MICROSECONDS_PER_HOUR
        return now + timedelta(microseconds=-(-exact.numerator // exact.denominator))

    def _exact(self, now: datetime) -> Fraction:
        return self._paid_in - sum((meter.total(now) for meter in self._meters()), Fraction(0))
