"""The prepaid balance: costs accrue by the second, and are taken off the balance every five minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from autopilot_lab.sandbox.market.account import PrepaidCredit
from autopilot_lab.sandbox.market.metering import Meter, to_decimal
from autopilot_lab.sandbox.units import NANO

SETTLEMENT = timedelta(minutes=5)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Balance:
    def __init__(self, paid_in: Decimal, meters: Callable[[], Iterable[Meter]]) -> None:
        self._account = PrepaidCredit(paid_in, meters)
        self._meters = meters

    def show(self, now: datetime) -> Decimal:
        """What the customer is told: the balance as of the last settlement."""
        return self._account.credit(now) + self._sum_unsettled(now)

    def set(self, amount: Decimal, now: datetime) -> None:
        self._account.set_credit(amount - self._sum_unsettled(now), now)

    def burn(self) -> Decimal:
        """$/h at this moment, disks included."""
        return to_decimal(sum((meter.burn() for meter in self._meters()), Fraction(0)), NANO)

    def exhausted_at(self, now: datetime) -> datetime | None:
        """The settlement that will find nothing left, at the present burn; ``None`` for never."""
        empty_at = self._account.empty_at(now)
        return None if empty_at is None else _EPOCH + -((_EPOCH - empty_at) // SETTLEMENT) * SETTLEMENT

    def _sum_unsettled(self, now: datetime) -> Decimal:
        last = _EPOCH + (now - _EPOCH) // SETTLEMENT * SETTLEMENT
        spent = (sum(meter.cost_between(last, now).values(), Fraction(0)) for meter in self._meters())
        return to_decimal(sum(spent, Fraction(0)), NANO)
