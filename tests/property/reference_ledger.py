"""What a ledger must say, worked out the plain way: whole nano-dollars, whole microseconds, no code of the program.

A machine has cost, on each UTC day and for each thing that is billed, either what its rates come to or, once the
market's bill for that day is in, what the bill says. Nothing else enters.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

MICROSECONDS_PER_HOUR = 3_600_000_000
MICROSECONDS_PER_DAY = 24 * MICROSECONDS_PER_HOUR
FIRST_DAY = date(1970, 1, 1)

Line = tuple[str, date]
"""What is billed ("compute", "disk", "traffic", "fee") on which day."""


def rounded(numerator: int, denominator: int) -> int:
    """Half to even, of what is not negative."""
    whole, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        whole += 1
    return whole


@dataclass
class Stretch:
    """Microseconds since 1970, and nano-dollars an hour of computing and of the disk.

    ``is_seen``: somebody saw it so; else these are upper bounds.
    """

    start: int
    status: str
    compute: int
    disk: int
    end: int | None = None
    is_seen: bool = True


@dataclass
class Machine:
    stretches: list[Stretch] = field(default_factory=list)
    traffic: dict[date, int] = field(default_factory=dict)
    """Nano-dollars."""
    bills: dict[Line, int] = field(default_factory=dict)
    """Nano-dollars that count from now on, regardless of the clock."""
    clock_at_bill: dict[Line, int] = field(default_factory=dict)

    def change(self, at: int, status: str, compute: int, disk: int, *, is_seen: bool = True) -> None:
        """Each stretch in one status at one price, seen or not, is rounded by itself."""
        if self.stretches and self.stretches[-1].end is None:
            last = self.stretches[-1]
            if (last.status, last.compute, last.disk, last.is_seen) == (status, compute, disk, is_seen):
                return
            last.end = at
        self.stretches.append(Stretch(at, status, compute, disk, is_seen=is_seen))

    def stop(self, at: int) -> None:
        if self.stretches and self.stretches[-1].end is None:
            self.stretches[-1].end = at

    def clock(self, now: int) -> dict[Line, int]:
        """Nano-dollars by our own clock."""
        totals: dict[Line, int] = {}
        for stretch in self.stretches:
            for day, elapsed in _days(stretch.start, now if stretch.end is None else stretch.end):
                for what, rate in (("compute", stretch.compute), ("disk", stretch.disk)):
                    if rate:
                        cost = rounded(rate * elapsed, MICROSECONDS_PER_HOUR)
                        totals[what, day] = totals.get((what, day), 0) + cost
        for day, cost in self.traffic.items():
            totals["traffic", day] = totals.get(("traffic", day), 0) + cost
        return totals

    def surely(self, until: int) -> dict[Line, int]:
        """By our own clock, of what was seen until then; no traffic, and not the minute before less was billed."""
        stretches: list[Stretch] = []
        for number, stretch in enumerate(self.stretches):
            end = until if stretch.end is None else min(until, stretch.end)
            following = self.stretches[number + 1 : number + 2]
            if following and following[0].compute < stretch.compute and stretch.end is not None:
                end = min(end, stretch.end - 60_000_000)
            if stretch.is_seen and end > stretch.start:
                stretches.append(replace(stretch, end=end))
        return Machine(stretches).clock(until)

    def lacks_hours(self, shown: Container[Line], now: int) -> bool:
        """A list showed it running, or it sent something, and the bill has nothing for that: $0.001 may be missing."""
        has_run = self.traffic or any(stretch.status == "running" and stretch.is_seen for stretch in self.stretches)
        hours = {line: nano for line, nano in self.clock(now).items() if line[0] == "compute"}
        return bool(has_run) and sum(hours.values()) > 10**6 and not any(line in shown for line in hours)

    def doubt(self) -> tuple[int, set[date]] | None:
        """Since when it is seen to be stopped, and the days before on which its computing was not observed."""
        rest, found_at = list(self.stretches), None
        while rest and rest[-1].is_seen and rest[-1].status == "stopped":
            found_at = rest.pop().start
        days: set[date] = set()
        while rest and not rest[-1].is_seen:
            last = rest.pop()
            if last.compute:
                days |= {day for day, _ in _days(last.start, last.start if last.end is None else last.end)}
        return None if found_at is None else (found_at, days)

    def seen_computing(self, until: int) -> dict[date, int]:
        whole = Machine([each for each in self.stretches if each.is_seen]).clock(until)
        return {day: nano for (what, day), nano in whole.items() if what == "compute"}

    def bill(self, lines: dict[Line, int], now: int) -> None:
        self.bills |= lines
        clock = self.clock(now)
        for line in lines:
            self.clock_at_bill[line] = clock.get(line, 0)

    def owed(self, now: int) -> dict[Line, int]:
        """The bill where there is one, and what the clock has counted since it came; else the clock."""
        clock = self.clock(now)
        owed = dict(clock)
        for line, billed in self.bills.items():
            owed[line] = billed + clock.get(line, 0) - self.clock_at_bill[line]
        return owed


def _days(start: int, end: int) -> Iterator[tuple[date, int]]:
    while start < end:
        number = start // MICROSECONDS_PER_DAY
        until = min(end, (number + 1) * MICROSECONDS_PER_DAY)
        yield FIRST_DAY + timedelta(days=number), until - start
        start = until
