"""Seeded spot markets made up for fitting and for tests: none of their prices was ever seen.

``vast``, ``vast-like``, ``contested`` and ``two-gpus``: hosts with overlapping chunks that come and go, rivals with
bids, on-demand renters who outrank any bid, floors seen late and partly (``crowds``). ``three-machines``: a few
machines, always listed, whose floors are calm for days and then are not, under an on-demand price that is ten times
as high. ``calm``, ``stormy`` and ``trending``: markets of 3 to 12 machines that share a weather which lasts
(``weather``).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal, NamedTuple

from autopilot_lab.backtest.crowds import CROWDS, crowded_market
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidRun, BidSuite, GpuModel, Listing, Pays
from autopilot_lab.backtest.tasks import DAY, MIGRATE_S, RESUME_S, TICK_S, TICKS_PER_H, Task
from autopilot_lab.backtest.weather import WEATHERS, weather_floors

Kind = Literal["vast", "vast-like", "contested", "two-gpus", "three-machines", "calm", "stormy", "trending"]
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
    floors, listing, on_demand_price, gpus = _market(kind, rng, ticks)
    config = BidConfig(
        tick_s=TICK_S,
        on_demand_price=on_demand_price,
        storage_rate=0.018 * on_demand_price,
        migrate_s=MIGRATE_S,
        resume_s=RESUME_S,
        checkpoint_s=task.checkpoint_s,
        machines=tuple(f"machine-{number}" for number in range(len(floors))),
        gpus=gpus,
    )
    runs = tuple(
        BidRun(int((WARM_UP_H + number * apart_h) * TICKS_PER_H), task.work_s, deadline_s, pay, market=str(seed))
        for number in range(starts)
        for deadline_s in deadlines_s
        for pay in pays
    )
    return BidSuite(f"synthetic {kind} {seed}", config, floors, runs, listing)


class _Market(NamedTuple):
    floors: tuple[array[float], ...]
    listing: Listing | None
    on_demand_price: float
    gpus: tuple[GpuModel, ...] = ()


def _market(kind: Kind, rng: random.Random, ticks: int) -> _Market:
    if kind in WEATHERS:
        floors, on_demand_price = weather_floors(kind, rng, ticks)
        return _Market(floors, None, on_demand_price)
    if kind in CROWDS:
        return _Market(*crowded_market(CROWDS[kind], rng, ticks))
    return _three_machines(rng, ticks)


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
