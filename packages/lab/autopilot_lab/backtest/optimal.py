"""What a run costs at least, knowing the future: exact dynamic programs over (tick, work left, what runs).

Work is counted in whole units of the greatest common divisor of every duration. The restart time of a start is
subtracted at once, so work left may exceed the whole: no optimum ends a start before it has served its restart.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from math import gcd

import numpy as np
import numpy.typing as npt

from autopilot_lab.backtest.suite import (
    HOUR_S,
    AvailabilityConfig,
    AvailabilityRun,
    BidConfig,
    BidRun,
    ticks_until,
    whole_ticks,
)

Costs = npt.NDArray[np.float64]

_PER_S = 1000
"""Durations are whole milliseconds."""


class _Band:
    """Cost to finish by units of work left, for the reachable ones.

    Arrays have ``pad`` zeros in front (no work left costs nothing) and infinities behind (too late).
    """

    def __init__(
        self,
        work_s: float,
        tick_s: float,
        starts_s: Sequence[float],
        ticks: int,
        also_s: float = 0.0,
        speeds: Collection[float] = (1.0,),
    ) -> None:
        """``speeds``: what is done of the work in a second."""
        timed = [value * speed for value in (tick_s, *starts_s) for speed in speeds]
        unit = gcd(*(round(value * _PER_S) for value in (*timed, also_s)))
        self.unit_s = unit / _PER_S
        self.tick = round(tick_s * max(speeds) / self.unit_s)
        """What is done in a tick at the most."""
        self.work = whole_ticks(work_s, self.unit_s)
        self.ticks = ticks
        start = self.units(max(starts_s) * max(speeds))
        self.most = self.work + start
        self.pad = self.tick
        self.size = self.pad + self.most + start + 1 + self.units(also_s)

    def units(self, duration_s: float) -> int:
        return round(duration_s / self.unit_s)

    def blank(self, modes: int) -> Costs:
        costs = np.full((modes, self.size), np.inf)
        costs[:, : self.pad + 1] = 0.0
        return costs

    def reachable(self, tick: int) -> tuple[int, int]:
        """The least and the most work left at a tick that can have come about and can still be finished."""
        return max(1, self.work - tick * self.tick), min(self.most, (self.ticks - tick) * self.tick)


def optimal_availability(config: AvailabilityConfig, run: AvailabilityRun, trace: bytes) -> float:
    """The least dollars with which the run finishes by its deadline."""
    band = _Band(run.work_s, config.tick_s, (run.restart_s,), ticks_until(run.deadline_s, config.tick_s))
    restart, pad = band.units(run.restart_s), band.pad
    spot = config.spot_rate * config.tick_s / HOUR_S
    on_demand = config.on_demand_price * config.tick_s / HOUR_S
    nothing, on_spot, demanded = 0, 1, 2
    old, new = band.blank(3), band.blank(3)
    for tick in range(band.ticks - 1, -1, -1):
        low, high = band.reachable(tick)
        if low > high:
            continue
        here = slice(pad + low, pad + high + 1)
        going = slice(low, high + 1)
        starting = slice(low + restart, high + restart + 1)
        stay = old[nothing, here]
        start_demand = on_demand + old[demanded, starting]
        go_demand = on_demand + old[demanded, going]
        idle = np.minimum(stay, start_demand)
        if trace[run.start + tick]:
            start_spot = spot + old[on_spot, starting]
            go_spot = spot + old[on_spot, going]
            np.minimum(idle, start_spot, out=new[nothing, here])
            np.minimum(idle, go_spot, out=new[on_spot, here])
            np.minimum(np.minimum(stay, start_spot), go_demand, out=new[demanded, here])
        else:
            new[nothing, here] = idle
            new[on_spot, here] = idle
            np.minimum(stay, go_demand, out=new[demanded, here])
        old, new = new, old
    return float(old[nothing, pad + band.work])


def optimal_bids(config: BidConfig, run: BidRun, floors: Sequence[array[float]]) -> float:
    """The least dollars with which the run finishes by its deadline: each bid is the floor to come."""
    machines = len(floors)
    speeds = [1.0, *(config.speed(machine) for machine in range(machines))]
    ticks = min(ticks_until(run.deadline_s, config.tick_s), len(floors[0]) - 1 - run.start)
    starts_s = config.migrate_s, config.resume_s
    band = _Band(run.work_s, config.tick_s, starts_s, ticks, config.checkpoint_s, set(speeds))
    pad = band.pad
    # By what runs, the one on demand first: how far a tick of it brings the work, from no work left on.
    shifts = [
        tuple(pad - band.units((config.tick_s - start_s) * speed) for start_s in (0.0, *starts_s)) for speed in speeds
    ]
    tick_h = config.tick_s / HOUR_S
    storage = config.storage_rate * tick_h
    # Modes: nothing, on demand, each machine running, each machine paused.
    nothing, demanded, first_running, first_paused = 0, 1, 2, 2 + machines
    rates = [
        [config.on_demand_price * tick_h + storage, *(row[run.start + tick + 1] * tick_h + storage for row in floors)]
        for tick in range(band.ticks)
    ]
    thrown_back = pad + _after_a_pause(band, band.units(config.checkpoint_s))
    # Whose memory is used again and again: most of the time goes into moving such rows through the caches.
    elsewhere_row, kept_row, other_row = np.empty((3, band.size))
    old, new = band.blank(2 + 2 * machines), band.blank(2 + 2 * machines)
    for tick in range(band.ticks - 1, -1, -1):
        low, high = band.reachable(tick)
        if low > high:
            continue
        here = slice(pad + low, pad + high + 1)
        after = [tuple(slice(low + more, high + more + 1) for more in shift) for shift in shifts]
        runs = [demanded, *range(first_running, first_paused)]
        paid = rates[tick]
        size = high - low + 1
        elsewhere, kept, other = elsewhere_row[:size], kept_row[:size], other_row[:size]
        elsewhere[:] = old[nothing, here]
        for mode, rate, (_, starting, _) in zip(runs, paid, after, strict=True):
            np.minimum(elsewhere, np.add(old[mode, starting], rate, out=other), out=elsewhere)
        new[nothing, here] = elsewhere
        np.minimum(elsewhere, np.add(old[demanded, after[0][0]], paid[0], out=other), out=new[demanded, here])
        for machine in range(machines):
            running, paused = first_running + machine, first_paused + machine
            rate, (going, _, resuming) = paid[1 + machine], after[1 + machine]
            np.minimum(elsewhere, np.add(old[paused, here], storage, out=kept), out=kept)
            np.minimum(kept, np.add(old[running, resuming], rate, out=other), out=new[paused, here])
            np.minimum(elsewhere, np.add(old[running, going], rate, out=other), out=kept)
            np.take(old[paused], thrown_back[low : high + 1], out=other, mode="clip")
            np.minimum(kept, np.add(other, storage, out=other), out=new[running, here])
        old, new = new, old
    return float(old[nothing, pad + band.work])


def _after_a_pause(band: _Band, checkpoint: int) -> npt.NDArray[np.int64]:
    """Work left → work left once what is not saved is thrown back."""
    done = band.work - np.arange(band.most + 1)
    saved = np.where(done > 0, done // checkpoint * checkpoint, done)
    return band.work - saved
