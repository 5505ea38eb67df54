"""What an instance costs: exact to the microsecond, then rounded the way the bill rounds.

Three kinds of cost: ``gpu`` and ``disk`` accrue by time at an hourly rate, ``bwd``/``bwu`` (bytes down and up)
by quantity. Arithmetic is in ``Fraction``; rounding happens only where a number leaves (nano-dollars for the
books, a tenth of a cent for each line of a bill).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from autopilot_lab.sandbox.units import cut_at_midnights, utc_day

GPU, DISK, DOWN, UP = "gpu", "disk", "bwd", "bwu"
KINDS = (GPU, DISK, DOWN, UP)

_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000
_BILL_UNIT = Decimal("0.001")


@dataclass(frozen=True)
class BillLine:
    """One line of a day's bill: ``quantity`` hours (gpu, disk) or gigabytes (bwd, bwu) at ``price`` dollars each."""

    day: date
    kind: str
    quantity: Fraction
    price: Fraction

    @property
    def amount(self) -> Decimal:
        return to_decimal(self.quantity * self.price, _BILL_UNIT)


@dataclass
class Meter:
    """The meters of one instance. ``run`` and ``halt`` open and close an interval; times never go back."""

    _open: dict[str, tuple[datetime, Fraction]] = field(default_factory=dict)
    _closed: list[tuple[str, datetime, datetime, Fraction]] = field(default_factory=list)
    _transfers: list[tuple[str, datetime, Fraction, Fraction]] = field(default_factory=list)
    _settled: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(KINDS, Fraction(0)))

    def run(self, kind: str, per_hour: Fraction, at: datetime) -> None:
        """From ``at`` on, ``kind`` costs so much; an interval at another price ends here."""
        if kind in self._open and self._open[kind][1] == per_hour:
            return
        self.halt(kind, at)
        self._open[kind] = (at, per_hour)

    def halt(self, kind: str, at: datetime) -> None:
        if kind in self._open:
            start, rate = self._open.pop(kind)
            if at > start:
                self._closed.append((kind, start, at, rate))
                self._settled[kind] += rate * _hours(start, at)

    def halt_all(self, at: datetime) -> None:
        for kind in tuple(self._open):
            self.halt(kind, at)

    def transfer(self, kind: str, gigabytes: Fraction, price_per_gb: Fraction, at: datetime) -> None:
        self._transfers.append((kind, at, gigabytes, price_per_gb))
        self._settled[kind] += gigabytes * price_per_gb

    def running(self, kind: str) -> bool:
        return kind in self._open

    def stretches(self, kind: str) -> list[tuple[datetime, datetime | None, Fraction]]:
        """From when to when it cost how much an hour, oldest first; None: it goes on."""
        over = [(start, end, rate) for name, start, end, rate in self._closed if name == kind]
        return [*over, *((start, None, rate) for name, (start, rate) in self._open.items() if name == kind)]

    def burn(self) -> Fraction:
        """Dollars per hour at this moment."""
        return sum((rate for _, rate in self._open.values()), Fraction(0))

    def transferred_gb(self, kind: str) -> Fraction:
        return sum((gigabytes for name, _, gigabytes, _ in self._transfers if name == kind), Fraction(0))

    def cost(self, until: datetime) -> dict[str, Fraction]:
        """Exact dollars by kind, from the start up to ``until``, which is not before the last change."""
        total = dict(self._settled)
        for kind, (start, rate) in self._open.items():
            if until > start:
                total[kind] += rate * _hours(start, until)
        return total

    def total(self, until: datetime) -> Fraction:
        return sum(self.cost(until).values(), Fraction(0))

    def cost_between(self, start: datetime, end: datetime) -> dict[str, Fraction]:
        """Exact dollars by kind that fell into ``[start, end)``; both may lie in the past."""
        total = dict.fromkeys(KINDS, Fraction(0))
        for kind, began, ended, rate in self._intervals(end):
            begin, finish = max(began, start), min(ended, end)
            if finish > begin:
                total[kind] += rate * _hours(begin, finish)
        for kind, at, gigabytes, price in self._transfers:
            if start <= at < end:
                total[kind] += gigabytes * price
        return total

    def lines(self, until: datetime) -> list[BillLine]:
        """The bill: one line per UTC day, kind and rate."""
        quantities: dict[tuple[date, str, Fraction], Fraction] = {}
        for kind, start, end, rate in self._intervals(until):
            for day, begin, finish in cut_at_midnights(start, end):
                key = (day, kind, rate)
                quantities[key] = quantities.get(key, Fraction(0)) + _hours(begin, finish)
        for kind, at, gigabytes, price in self._transfers:
            key = (utc_day(at), kind, price)
            quantities[key] = quantities.get(key, Fraction(0)) + gigabytes
        lines = [BillLine(day, kind, quantity, rate) for (day, kind, rate), quantity in quantities.items()]
        return sorted(lines, key=lambda line: (line.day, KINDS.index(line.kind), line.price))

    def _intervals(self, until: datetime) -> Iterable[tuple[str, datetime, datetime, Fraction]]:
        yield from self._closed
        for kind, (start, rate) in self._open.items():
            if until > start:
                yield kind, start, until, rate


def to_decimal(value: Fraction, unit: Decimal) -> Decimal:
    """``value`` as a whole number of ``unit``, half to even."""
    exact = value / Fraction(unit)
    whole, rest = divmod(exact.numerator, exact.denominator)
    twice = 2 * rest
    if twice > exact.denominator or (twice == exact.denominator and whole % 2):
        whole += 1
    return (whole * unit).quantize(unit, ROUND_HALF_EVEN)


def _hours(start: datetime, end: datetime) -> Fraction:
    return Fraction((end - start) // _MICROSECOND, _MICROSECONDS_PER_HOUR)
