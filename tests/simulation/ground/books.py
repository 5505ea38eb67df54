"""What the markets really bill, to the nano-dollar, regardless of what the daemon believes.

*Excused* is what a machine costs after its market was asked to destroy it and did not, or while no machine of ours
could act; everything else has to stay below every limit at every instant.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import ceil

from tests.simulation.virtual.clock import ORIGIN, at

_MICROS_PER_HOUR = 3_600_000_000
_DAY_S = 86_400.0
_FIRST_MIDNIGHT_S = _DAY_S - (ORIGIN.hour * 3600 + ORIGIN.minute * 60)

BillLine = tuple[str, date]
"""(kind, UTC day) of one instance's bill; kinds as on vast.ai's: gpu, disk, bwu, bwd."""


@dataclass(slots=True)
class Meter:
    """One rented machine's bill. Sums are nano-dollars × microseconds / hour, so that nothing is ever rounded."""

    job_id: str | None
    """None: not ours, no limits apply."""
    market: str = ""
    compute_nano: int = 0
    """Nano-dollars an hour, now."""
    disk_nano: int = 0
    excuse: str = ""
    """Why what accrues now is excused; empty: it is not."""
    since_s: float = 0.0
    lines: dict[BillLine, int] = field(default_factory=lambda: defaultdict(int))
    excused: int = 0


class Books:
    """All meters and their sums by job, day and month; ``settle`` brings them to a moment."""

    def __init__(self) -> None:
        self.meters: dict[str, Meter] = {}
        self.by_job: dict[str, int] = defaultdict(int)
        self.by_job_month: dict[tuple[str, int, int], int] = defaultdict(int)
        """By job, year and month."""
        self.by_market: dict[str, int] = defaultdict(int)
        self.by_day: dict[date, int] = defaultdict(int)
        self.by_month: dict[tuple[int, int], int] = defaultdict(int)
        self.excused_by_reason: dict[str, int] = defaultdict(int)

    def open(self, key: str, job_id: str | None, now_s: float) -> Meter:
        """``key``: begins with the market's name and a slash."""
        meter = self.meters[key] = Meter(job_id, key.partition("/")[0], since_s=now_s)
        return meter

    def change(self, meter: Meter, now_s: float, compute: Decimal, disk: Decimal, excuse: str) -> None:
        """From now on it bills so much ($/h)."""
        self.settle(meter, now_s)
        meter.compute_nano, meter.disk_nano, meter.excuse = _whole_nano(compute), _whole_nano(disk), excuse

    def settle_all(self, now_s: float) -> None:
        for meter in self.meters.values():
            if meter.compute_nano or meter.disk_nano:
                self.settle(meter, now_s)

    def settle(self, meter: Meter, now_s: float) -> None:
        since_s = meter.since_s
        meter.since_s = now_s
        if not (meter.compute_nano or meter.disk_nano):
            return
        while since_s < now_s:
            until_s = min(_next_midnight_s(since_s), now_s)
            micros = round(until_s * 1e6) - round(since_s * 1e6)
            day = at(since_s).date()
            for kind, rate in (("gpu", meter.compute_nano), ("disk", meter.disk_nano)):
                if rate:
                    self._add(meter, kind, day, rate * micros)
            since_s = until_s

    def charge(self, meter: Meter, kind: str, now_s: float, amount: Decimal) -> None:
        """Dollars for something that is not billed by the hour."""
        self._add(meter, kind, at(now_s).date(), _whole_nano(amount) * _MICROS_PER_HOUR)

    def _add(self, meter: Meter, kind: str, day: date, amount: int) -> None:
        meter.lines[kind, day] += amount
        if meter.job_id is None:
            return
        if meter.excuse:
            meter.excused += amount
            self.excused_by_reason[meter.excuse] += amount
            return
        self.by_job[meter.job_id] += amount
        self.by_job_month[meter.job_id, day.year, day.month] += amount
        self.by_market[meter.market] += amount
        self.by_day[day] += amount
        self.by_month[day.year, day.month] += amount

    def bill(self, meter: Meter) -> dict[BillLine, Decimal]:
        """As the market will ever tell it: each line rounded to a nano-dollar."""
        return {line: dollars(amount) for line, amount in meter.lines.items()}


def dollars(amount: int) -> Decimal:
    """Of a sum in the books, to the nearest nano-dollar."""
    return Decimal((amount + _MICROS_PER_HOUR // 2) // _MICROS_PER_HOUR).scaleb(-9)


def _next_midnight_s(time_s: float) -> float:
    days = (time_s - _FIRST_MIDNIGHT_S) // _DAY_S + 1
    return _FIRST_MIDNIGHT_S + days * _DAY_S


def hourly_storage(price_per_gb_month: Decimal, gigabytes: int) -> Decimal:
    """$/h, rounded up to a nano-dollar; a month has 720 hours."""
    monthly = Fraction(price_per_gb_month) * gigabytes
    return Decimal(ceil(monthly * 1_000_000_000 / 720)).scaleb(-9)


def _whole_nano(amount: Decimal) -> int:
    """Raises ``ValueError`` for what is more precise than a nano-dollar."""
    nano = Fraction(amount) * 1_000_000_000
    if nano.denominator != 1:
        raise ValueError(f"{amount} is more precise than a nano-dollar")
    return nano.numerator
