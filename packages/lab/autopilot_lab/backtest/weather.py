"""Seeded floors whose weather lasts: calm weeks, storms of days, prices that drift and jump to a new level.

All machines of a market share its weather, each as far as it is exposed to it: a dear time is dear everywhere, as on
recorded markets. In fair weather a rival's bid lifts one floor for an hour or so. In a storm floors stand at a multiple
for a day or more and jump, now and then above the on-demand price. Where prices drift, the calm floor moves by some per
cent a day, and every few days to another level.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from autopilot_lab.backtest.tasks import TICKS_PER_H

MACHINES = (3, 3, 6, 12)
ON_DEMAND_TIMES = (1.7, 3.0, 6.0)
"""The on-demand price over the usual floor: a market is drawn to have one of them, and one of those sizes."""
BASE = 0.10
ROUND = 4


@dataclass(frozen=True, slots=True)
class Weather:
    """Hours, and log ratios of floors."""

    storm_every_h: float = 0.0
    """Fair weather between two storms, at the mean; 0: there are none."""
    storm_h: float = 30.0
    storm_spread: float = 0.8
    storm_height: float = log(2.0)
    drift_a_day: float = 0.0
    """How steeply prices drift, one standard deviation."""
    level_every_h: float = 0.0
    """How long a level and a drift last, at the mean; 0: for ever."""
    level_step: float = 0.0
    peaks_a_day: float = 2.0
    peak_h: float = 0.8
    peak_height: float = log(1.4)


WEATHERS = {
    "calm": Weather(),
    "stormy": Weather(storm_every_h=110.0),
    "trending": Weather(storm_every_h=300.0, drift_a_day=0.05, level_every_h=100.0, level_step=0.25, peaks_a_day=3.0),
}


@dataclass(slots=True)
class _Peak:
    height: float = 0.0
    until: float = 0.0


def weather_floors(kind: str, rng: random.Random, ticks: int) -> tuple[tuple[array[float], ...], float]:
    """[machine] → its floor at each tick, and the on-demand price; $/h."""
    weather = WEATHERS[kind]
    times, machines = rng.choice(ON_DEMAND_TIMES), rng.choice(MACHINES)
    level, storm = _levels(weather, rng, ticks), _storms(weather, rng, ticks)
    floors = tuple(_machine(weather, rng, level, storm) for _ in range(machines))
    return floors, round(BASE * times, ROUND)


def _levels(weather: Weather, rng: random.Random, ticks: int) -> list[float]:
    """The calm floor of the market at each tick, as a log ratio to its usual one. It is drawn back to that one."""
    levels: list[float] = []
    level, drift, until = 0.0, rng.gauss(0.0, weather.drift_a_day) / 24 / TICKS_PER_H, _next(rng, weather.level_every_h)
    for tick in range(ticks):
        if tick >= until:
            level = 0.6 * level + rng.gauss(0.0, weather.level_step)
            drift = rng.gauss(0.0, weather.drift_a_day) / 24 / TICKS_PER_H
            until = tick + _next(rng, weather.level_every_h)
        level += drift
        levels.append(level)
    return levels


def _storms(weather: Weather, rng: random.Random, ticks: int) -> list[float]:
    """Height of the storm at each tick, as a log ratio; 0 in fair weather."""
    heights = [0.0] * ticks
    at = _next(rng, weather.storm_every_h)
    while at < ticks:
        length = weather.storm_h * rng.lognormvariate(0.0, weather.storm_spread) * TICKS_PER_H
        height = weather.storm_height * rng.lognormvariate(0.0, 0.4)
        first, last = int(at), min(int(at + length), ticks)
        heights[first:last] = [height] * (last - first)
        at += length + _next(rng, weather.storm_every_h)
    return heights


def _machine(weather: Weather, rng: random.Random, level: Sequence[float], storm: Sequence[float]) -> array[float]:
    own = abs(rng.gauss(0.0, 0.08))
    exposed = rng.choice((0.3, 0.8, 1.0, 1.2))
    floors, peak, held = array("d"), _Peak(), 0.0
    for tick, (of_market, height) in enumerate(zip(level, storm, strict=True)):
        busy = 6.0 if height else 1.0
        if tick >= peak.until:
            peak.height = 0.0
            if rng.random() < busy * weather.peaks_a_day / 24 / TICKS_PER_H:
                peak.height = weather.peak_height * rng.lognormvariate(0.0, 0.9)
                peak.until = tick + max(weather.peak_h * rng.lognormvariate(0.0, 1.0) * TICKS_PER_H, 1.0)
        # What a storm lifts rests at one bid for some ticks, then at another.
        if not height:
            held = 0.0
        elif not held or rng.random() < 0.15:
            held = max(height + rng.gauss(0.0, 0.25), 0.05)
        floors.append(round(BASE * exp(own + of_market + exposed * held + peak.height), ROUND))
    return floors


def _next(rng: random.Random, every_h: float) -> float:
    return rng.expovariate(1 / (every_h * TICKS_PER_H)) if every_h else float("inf")
