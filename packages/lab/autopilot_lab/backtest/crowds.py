"""Seeded markets of many hosts, whose machines renters crowd for: rivals with bids, and customers on demand.

A host has chunks that come and go together. A rival's bid must be outbid; who rents on demand displaces any bid. A
search shows a machine in stints, each floor a scrape or two old. Where rivals are hidden, the search shows the host's
own floor while a rival bids above it, or nothing at all: a create at that floor is refused, and a machine that was
won is lost to a bid that shows only then. So it was observed on vast.ai.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf
from statistics import median
from typing import NamedTuple

from autopilot_lab.backtest.suite import GpuModel, Listing
from autopilot_lab.backtest.tasks import TICKS_PER_H

MEDIAN_FLOOR = 0.30
ON_DEMAND_SPREAD = 1.7
SEEN_SHARE = 0.38
"""Of the ticks in which a machine can be had, the median share in which the search shows it."""
ABSENT_SHARE = 0.5
"""Of hidden rivals: so many of the machines that they have are not listed; the others are, at the host's own floor."""


@dataclass(frozen=True, slots=True)
class Spells:
    """Something that begins at random and lasts: gaps are exponential, lengths log-normal. Hours."""

    gap_h: float
    median_h: float
    spread: float

    def draw(
        self, rng: random.Random, ticks: int, pace: Sequence[float] | None = None, popularity: float = 1.0
    ) -> list[tuple[int, int]]:
        """(first tick, the one after the last) of each. ``pace``: how fast they come, around 1, by tick."""
        spells: list[tuple[int, int]] = []
        at = 0.0
        while True:
            hurry = 1.0 if pace is None else pace[min(int(at), ticks - 1)]
            at += rng.expovariate(hurry / (self.gap_h / popularity * TICKS_PER_H))
            if at >= ticks:
                return spells
            length = max(self.median_h * rng.lognormvariate(0.0, self.spread) * TICKS_PER_H, 1.0)
            spells.append((int(at), min(int(at + length), ticks)))
            if pace is None:
                at += length


@dataclass(frozen=True, slots=True)
class Rivals:
    spells: Spells
    over: float
    """By how much a bid exceeds the floor at the mean, as a share of it."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who comes to a market, and what it shows of them."""

    rivals: tuple[Rivals, ...] = (Rivals(Spells(9.0, 2.5, 1.1), 0.22),)
    renters: Spells = Spells(16.0, 7.0, 1.2)
    """On demand: of one chunk or all of them."""
    away: Spells = Spells(96.0, 10.0, 1.0)
    """The host's own absences."""
    are_hidden: bool = False
    """The bids of rivals are not shown."""
    drift: float = 0.0
    """Standard deviation of the change of all floors in an hour, as a log ratio that is drawn back."""
    over_cheapest: bool = True
    """Whether on demand costs ``ON_DEMAND_SPREAD`` × the cheapest floor shown, at the median; or × the usual one."""
    gpus: tuple[GpuModel, ...] = ()
    """Each host has one of them; none: all have the same."""
    machines: int = 30


CROWDS = {
    "vast": Crowd(over_cheapest=False),
    "vast-like": Crowd(),
    "contested": Crowd(
        rivals=(Rivals(Spells(0.6, 0.2, 0.6), 0.006), Rivals(Spells(2.0, 0.7, 0.9), 0.18)),
        renters=Spells(8.0, 3.0, 1.1),
        are_hidden=True,
        drift=0.02,
    ),
    "two-gpus": Crowd(gpus=(GpuModel("RTX 3090", 1.0, 1.0), GpuModel("RTX 5080", 1.4, 1.5)), drift=0.02),
}


class Crowded(NamedTuple):
    """A market of a crowd."""

    floors: tuple[array[float], ...]
    listing: Listing
    on_demand_price: float
    gpus: tuple[GpuModel, ...]
    """Of each machine; none: all have the same."""


def crowded_market(crowd: Crowd, rng: random.Random, ticks: int) -> Crowded:
    pace = _demand(rng, ticks)
    level = _levels(rng, ticks, crowd.drift) if crowd.drift else None
    floors: list[array[float]] = []
    shown: list[array[float]] = []
    hosts: list[int] = []
    gpus: list[GpuModel] = []
    host = 0
    while len(floors) < crowd.machines:
        chunks = min(rng.choice((1, 1, 2, 3, 4)), crowd.machines - len(floors))
        gpu = rng.choice(crowd.gpus) if crowd.gpus else None
        rows, listed = _host(crowd, rng, ticks, chunks, pace, level, 1.0 if gpu is None else gpu.price)
        floors += rows
        shown += [_list(rng, row) for row in listed]
        hosts += [host] * chunks
        gpus += [] if gpu is None else [gpu] * chunks
        host += 1
    price = _cheapest(shown, gpus) if crowd.over_cheapest else MEDIAN_FLOOR
    return Crowded(tuple(floors), Listing(tuple(shown), tuple(hosts)), price * ON_DEMAND_SPREAD, tuple(gpus))


def _cheapest(shown: Sequence[array[float]], gpus: Sequence[GpuModel]) -> float:
    """The median over time of the cheapest floor that is shown, for the work of an hour on the first GPU."""
    speeds = [gpu.speed for gpu in gpus] or [1.0] * len(shown)
    lowest = [min(row[tick] / speed for row, speed in zip(shown, speeds, strict=True)) for tick in range(len(shown[0]))]
    return median(floor for floor in lowest if floor < inf)


def _demand(rng: random.Random, ticks: int) -> list[float]:
    """How fast renters come, around 1: a slow random walk that is drawn back, and the hours of the day."""
    pace, level = [], 0.0
    for tick in range(ticks):
        if tick % TICKS_PER_H == 0:
            level = 0.985 * level + rng.gauss(0.0, 0.09)
        busy = 0.25 if 8 <= tick // TICKS_PER_H % 24 < 20 else -0.25
        pace.append(exp(level + busy))
    return pace


def _levels(rng: random.Random, ticks: int, drift: float) -> list[float]:
    """What all floors are multiplied by, at each tick."""
    levels, level = [], 0.0
    for tick in range(ticks):
        if tick % TICKS_PER_H == 0:
            level = 0.99 * level + rng.gauss(0.0, drift)
        levels.append(exp(level))
    return levels


def _host(
    crowd: Crowd,
    rng: random.Random,
    ticks: int,
    chunks: int,
    pace: Sequence[float],
    level: Sequence[float] | None,
    price: float,
) -> tuple[list[array[float]], list[array[float]]]:
    """Of each chunk the floor that is, and the one that a search would show at once. ``price``: of its GPU."""
    base = MEDIAN_FLOOR * price * rng.lognormvariate(0.0, 0.22)
    popularity = rng.lognormvariate(0.0, 0.5)
    own = array("d", [base]) * ticks if level is None else array("d", (base * each for each in level))
    rows = [own[:] for _ in range(chunks)]
    listed = [own[:] for _ in range(chunks)] if crowd.are_hidden else rows
    for number, row in enumerate(rows):
        # A rival's bid must be outbid; where several bid, the highest.
        for rivals in crowd.rivals:
            for first, last in rivals.spells.draw(rng, ticks, pace, popularity):
                bid = own[first] * (1.0 + rng.expovariate(1 / rivals.over))
                for tick in range(first, last):
                    row[tick] = max(row[tick], bid)
                if crowd.are_hidden and rng.random() < ABSENT_SHARE:
                    _remove(listed[number], first, last)
    both = [*zip(rows, listed, strict=True)]
    # No bid runs while a customer on demand has the machine, or its host is away.
    for first, last in crowd.renters.draw(rng, ticks, pace, popularity):
        taken = both if rng.random() < 0.4 else [rng.choice(both)]
        for row, is_listed in taken:
            _remove(row, first, last)
            _remove(is_listed, first, last)
    for first, last in crowd.away.draw(rng, ticks):
        again = rng.lognormvariate(0.0, 0.06)
        for row in rows if listed is rows else [*rows, *listed]:
            _remove(row, first, last)
            row[last:] = array("d", [floor * again for floor in row[last:]])
    return rows, listed


def _remove(row: array[float], first: int, last: int) -> None:
    row[first:last] = array("d", [inf]) * (last - first)


def _list(rng: random.Random, floors: array[float]) -> array[float]:
    """What a search shows: stints of a machine that can be had, each floor a scrape or two old."""
    share = min(max(SEEN_SHARE * rng.lognormvariate(0.0, 0.4), 0.05), 0.98)
    shown, is_listed = array("d"), rng.random() < share
    stint_ticks = 1.5 * TICKS_PER_H
    for tick in range(len(floors)):
        leaves, comes = 1 / stint_ticks, share / (1 - share) / stint_ticks
        if rng.random() < (leaves if is_listed else comes):
            is_listed = not is_listed
        age = rng.choice((0, 0, 1, 2))
        shown.append(floors[max(tick - age, 0)] if is_listed else inf)
    return shown
