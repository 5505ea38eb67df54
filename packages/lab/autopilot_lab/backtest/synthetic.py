"""Seeded spot markets made up for fitting and for tests: none of their prices was ever seen.

``vast``: hosts with overlapping chunks that come and go, rivals with bids, on-demand renters who outrank any bid,
on-demand 1.7 times the usual floor, floors seen late and partly. ``three-machines``: a few machines, always listed,
whose floors are calm for days and then are not, under an on-demand price that is ten times as high. ``calm``,
``stormy`` and ``trending``: markets of 3 to 12 machines that share a weather which lasts (``weather``).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Literal, NamedTuple

from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidRun, BidSuite, Listing, Pays
from autopilot_lab.backtest.tasks import DAY, MIGRATE_S, RESUME_S, TICK_S, TICKS_PER_H, Task
from autopilot_lab.backtest.weather import WEATHERS, weather_floors

Kind = Literal["vast", "three-machines", "calm", "stormy", "trending"]
WARM_UP_H = 240.0
"""Recorded before the first run starts."""


def synthetic_suite(
    kind: Kind,
    seed: int,
    task: Task = DAY,
    *,
    stretches: Sequence[float] = (),
    starts: int = 12,
    apart_h: float = 36.0,
    pays: Sequence[Pays] = ("bid",),
) -> BidSuite:
    """The same suite for the same arguments, on every machine. The disk is as large as it usually is.

    ``stretches``: deadlines as multiples of the work, in place of the task's own.
    """
    rng = random.Random(f"{kind} {seed}")  # noqa: S311
    deadlines_s = [round(stretch * task.work_s, 3) for stretch in stretches] or task.deadlines_s
    hours = WARM_UP_H + starts * apart_h + max(deadlines_s) / HOUR_S + 1
    ticks = int(hours * TICKS_PER_H) + 2
    floors, listing, on_demand_price = _market(kind, rng, ticks)
    config = BidConfig(
        tick_s=TICK_S,
        on_demand_price=on_demand_price,
        storage_rate=0.018 * on_demand_price,
        migrate_s=MIGRATE_S,
        resume_s=RESUME_S,
        checkpoint_s=task.checkpoint_s,
        machines=tuple(f"machine-{number}" for number in range(len(floors))),
    )
    runs = tuple(
        BidRun(int((WARM_UP_H + number * apart_h) * TICKS_PER_H), task.work_s, deadline_s, pay)
        for number in range(starts)
        for deadline_s in deadlines_s
        for pay in pays
    )
    return BidSuite(f"synthetic {kind} {seed}", config, floors, runs, listing)


class _Market(NamedTuple):
    floors: tuple[array[float], ...]
    listing: Listing | None
    on_demand_price: float


def _market(kind: Kind, rng: random.Random, ticks: int) -> _Market:
    if kind in WEATHERS:
        floors, on_demand_price = weather_floors(kind, rng, ticks)
        return _Market(floors, None, on_demand_price)
    return _vast(rng, ticks) if kind == "vast" else _three_machines(rng, ticks)


# --- vast ------------------------------------------------------------------------------------------------------

MACHINES = 30
MEDIAN_FLOOR, FLOOR_SPREAD = 0.30, 0.22
ON_DEMAND_SPREAD = 1.7
SEEN_SHARE = 0.38
"""Of the ticks in which a machine can be had, the median share in which the search shows it."""


@dataclass(slots=True)
class _Spells:
    """Something that begins at random and lasts: gaps are exponential, lengths log-normal. Hours."""

    gap_h: float
    median_h: float
    spread: float

    def draw(self, rng: random.Random, ticks: int, pace: Sequence[float] | None = None) -> list[tuple[int, int]]:
        spells: list[tuple[int, int]] = []
        at = 0.0
        while True:
            hurry = 1.0 if pace is None else pace[min(int(at), ticks - 1)]
            at += rng.expovariate(hurry / (self.gap_h * TICKS_PER_H))
            if at >= ticks:
                return spells
            length = max(self.median_h * rng.lognormvariate(0.0, self.spread) * TICKS_PER_H, 1.0)
            spells.append((int(at), min(int(at + length), ticks)))
            if pace is None:
                at += length


def _vast(rng: random.Random, ticks: int) -> _Market:
    pace = _demand(rng, ticks)
    floors: list[array[float]] = []
    shown: list[array[float]] = []
    hosts: list[int] = []
    host = 0
    while len(floors) < MACHINES:
        chunks = min(rng.choice((1, 1, 2, 3, 4)), MACHINES - len(floors))
        rows = _host(rng, ticks, chunks, pace)
        floors += rows
        shown += [_list(rng, row) for row in rows]
        hosts += [host] * chunks
        host += 1
    return _Market(tuple(floors), Listing(tuple(shown), tuple(hosts)), MEDIAN_FLOOR * ON_DEMAND_SPREAD)


def _demand(rng: random.Random, ticks: int) -> list[float]:
    """How fast renters come, around 1: a slow random walk that is drawn back, and the hours of the day."""
    pace, level = [], 0.0
    for tick in range(ticks):
        if tick % TICKS_PER_H == 0:
            level = 0.985 * level + rng.gauss(0.0, 0.09)
        busy = 0.25 if 8 <= tick // TICKS_PER_H % 24 < 20 else -0.25
        pace.append(exp(level + busy))
    return pace


def _host(rng: random.Random, ticks: int, chunks: int, pace: Sequence[float]) -> list[array[float]]:
    base = MEDIAN_FLOOR * rng.lognormvariate(0.0, FLOOR_SPREAD)
    popularity = rng.lognormvariate(0.0, 0.5)
    rows = [array("d", [base]) * ticks for _ in range(chunks)]
    for row in rows:
        # A rival's bid must be outbid; where several bid, the highest.
        for first, last in _Spells(9.0 / popularity, 2.5, 1.1).draw(rng, ticks, pace):
            bid = base * (1.0 + rng.expovariate(1 / 0.22))
            for tick in range(first, last):
                row[tick] = max(row[tick], bid)
    # Rents on demand, of one chunk or all of them, and the host's own absences: no bid runs then.
    for first, last in _Spells(16.0 / popularity, 7.0, 1.2).draw(rng, ticks, pace):
        taken = rows if rng.random() < 0.4 else [rng.choice(rows)]
        for row in taken:
            row[first:last] = array("d", [inf]) * (last - first)
    for first, last in _Spells(96.0, 10.0, 1.0).draw(rng, ticks):
        again = rng.lognormvariate(0.0, 0.06)
        for row in rows:
            row[first:last] = array("d", [inf]) * (last - first)
            row[last:] = array("d", [floor * again for floor in row[last:]])
    return rows


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


# --- three machines --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mood:
    """How a floor behaves for some days."""

    changes_per_h: float
    jitter: float
    """Standard deviation of a small change, as a log ratio, drawn back to the calm floor."""
    spikes_per_day: float
    height: float
    """Median spike over the calm floor, as a log ratio."""
    spike_h: float
    median_h: float
    """How long the mood lasts."""


MOODS = (
    _Mood(1.5, 0.01, 0.3, log(1.6), 0.7, 72.0),
    _Mood(4.0, 0.04, 1.5, log(1.6), 0.6, 48.0),
    _Mood(7.0, 0.10, 6.0, log(2.5), 0.6, 30.0),
)


def _three_machines(rng: random.Random, ticks: int) -> _Market:
    base = 0.065
    return _Market(tuple(_moody(rng, ticks, base * rng.uniform(1.0, 1.06)) for _ in range(3)), None, 10 * base)


def _moody(rng: random.Random, ticks: int, base: float) -> array[float]:
    floors, mood, mood_ends = array("d"), rng.choice(MOODS), 0.0
    small, spike, spike_ends = 0.0, 0.0, 0.0
    floor = base
    for tick in range(ticks):
        if tick >= mood_ends:
            mood = rng.choice(MOODS)
            mood_ends = tick + mood.median_h * rng.lognormvariate(0.0, 0.8) * TICKS_PER_H
        if rng.random() < mood.spikes_per_day / (24 * TICKS_PER_H):
            spike = mood.height * rng.lognormvariate(0.0, 0.9)
            spike_ends = tick + max(mood.spike_h * rng.lognormvariate(0.0, 1.0) * TICKS_PER_H, 1.0)
            floor = base * exp(max(small, 0.0) + spike)
        elif spike and tick >= spike_ends:
            spike = 0.0
            floor = base * exp(max(small, 0.0))
        elif rng.random() < mood.changes_per_h / TICKS_PER_H:
            # What presses a floor up is drawn back; the calm floor is its least.
            small = 0.9 * small + rng.gauss(0.0, mood.jitter)
            spike *= rng.uniform(0.7, 1.15)
            floor = base * exp(max(small, 0.0) + spike)
        floors.append(round(floor, 4))
    return floors
