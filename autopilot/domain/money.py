"""Money: dollars as ``Decimal`` that are whole multiples of one nano-dollar (10⁻⁹ $).

Nothing here touches floats: a float that reaches money is a defect, so ``usd`` refuses it. Nano-dollars are what the
ledger stores (BIGINT); see ``store.types``.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, InvalidOperation

from autopilot.domain.errors import UserError

Number = Decimal | int | float | str | None
"""What a note or an event may carry; money among it is always a Decimal."""

NANO = Decimal("1e-9")
CENT = Decimal("0.01")
ZERO = Decimal(0)
SECONDS_PER_HOUR = 3600
BYTES_PER_GB = 1_000_000_000
HOURS_PER_STORAGE_MONTH = 720
"""vast.ai bills a gigabyte-month of storage as 720 hours (contract: 0.14933 $/GB-month × 10 GB / 720)."""

LARGEST = Decimal(1_000_000_000)
"""More than this is a slip of the pen; nano-dollars in a BIGINT end a little above nine times as much."""

_MICROSECONDS_PER_HOUR = SECONDS_PER_HOUR * 1_000_000
_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")


def usd(value: str | int | Decimal) -> Decimal:
    """Dollars from ``"0.31"``, ``"$25.00"``, an int or a Decimal.

    Commas group thousands ("1,250.00"); as a decimal point ("12,50") they are refused.
    Raises ``UserError`` for anything that is not a finite amount of whole nano-dollars, up to a billion dollars.
    """
    if isinstance(value, float):
        raise TypeError("money never comes from a float; pass a string or a Decimal")
    text = str(value).strip().removeprefix("$")
    try:
        amount = Decimal(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
    except InvalidOperation:
        raise UserError(f"not an amount of money: {value!r}", hint='write it as "$25.00"') from None
    if not amount.is_finite():
        raise UserError(f"not a finite amount of money: {value!r}", hint='write it as "$25.00"')
    if amount.copy_abs() > LARGEST:
        raise UserError(f"too large an amount of money: {value!r}", hint="check the number of digits")
    if amount != floor_nano(amount):
        raise UserError(f"more precise than a nano-dollar: {value!r}", hint="use at most nine decimals")
    return amount


def floor_nano(amount: Decimal) -> Decimal:
    return amount.quantize(NANO, ROUND_FLOOR)


def ceil_nano(amount: Decimal) -> Decimal:
    return amount.quantize(NANO, ROUND_CEILING)


def to_nano(amount: Decimal) -> int:
    """Whole nano-dollars; raises ``ValueError`` when the amount is finer than that."""
    scaled = amount.scaleb(9)
    whole = int(scaled)
    if whole != scaled:
        raise ValueError(f"{amount} is not a whole number of nano-dollars")
    return whole


def from_nano(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


def accrue(per_hour: Decimal, elapsed: timedelta) -> Decimal:
    """What ``per_hour`` ($/h) costs over the whole of ``elapsed``, half-even to a nano-dollar.

    Callers pass the *total* elapsed time and subtract what was posted, so that rounding never adds up.
    """
    micros = elapsed // timedelta(microseconds=1)
    return (per_hour * micros / _MICROSECONDS_PER_HOUR).quantize(NANO, ROUND_HALF_EVEN)


def worst_case(per_hour: Decimal, elapsed: timedelta) -> Decimal:
    """Like ``accrue`` but rounded up: reserves never fall short of the bill."""
    micros = elapsed // timedelta(microseconds=1)
    return ceil_nano(per_hour * micros / _MICROSECONDS_PER_HOUR)


def storage_rate(dollars_per_gb_month: Decimal, gigabytes: Decimal) -> Decimal:
    """Hourly price ($/h) of keeping ``gigabytes`` on a host, rounded up to a nano-dollar."""
    return ceil_nano(dollars_per_gb_month * gigabytes / HOURS_PER_STORAGE_MONTH)


def show(amount: Decimal, places: int = 2) -> str:
    """For people: ``$12.30``, ``-$0.004``."""
    rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    sign = "-" if rounded < 0 else ""
    return f"{sign}${abs(rounded):,.{places}f}"
