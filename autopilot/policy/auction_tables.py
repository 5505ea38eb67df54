"""What a job is expected to cost from here to its end where spot machines are auctioned off.

Backward induction over (time left T, work left w, level l of the floor), a step at a time, in dollars. With
d = migrate, e = resume, c = what a pause throws back at the mean, o = a step on demand, f = (w + d) · o:

    start   S(T,w,l) = min( f, E S(T−1,w,l'), B[ R(T−1, w+d−1), Z(T−1, w+d−e) ] )      nothing is held
    demand  O(T,w,l) = min( o + E O(T−1,w−1,l'), S(T,w,l) )                             on-demand runs
    run     R(T,w,l) = min( leave, B[ R(T−1, w−1), Z(T−1, w+c) ] )                      a machine runs
    paused  Z(T,w,l) = min( leave, B[ R(T−1, w+e−1), Z(T−1, w) ] )                      a machine is held, paused
    leave            = min( f, Σ elsewhere(l, q) S(T,w,q) )

B is the least over bids (the floor times a ratio's edge, the ceiling, or none) of storage + E[pay + run; won] +
E[paused; lost]. Where on-demand capacity must be started so that the deadline is kept, all is f (O = w · o): the guard
is part of the model. Slack T − w is capped: more of it is worth nothing more. S and O move by the pooled jumps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autopilot.domain.floors import RATIO_EDGES, AuctionShape, Jumps

SLACK_STEPS = 72
SPARE_STEPS = 5
"""Beyond the longest work: for set-ups and work that is thrown back."""
BINS = len(RATIO_EDGES)


@dataclass(slots=True)
class LevelOdds:
    """The next step of one machine at one level."""

    bins: tuple[tuple[tuple[int, float], ...], ...]
    """[ratio bin] → (next level, probability)."""
    levels: tuple[tuple[int, float], ...]
    """(next level, probability)."""
    paid: tuple[float, ...]
    """[ratio bin] → what a step costs at the mean for a bid at its upper edge, as a share of the floor's rate."""
    clearing: tuple[float, ...]
    """The same where the floor is paid: what a bid just at a ceiling costs where bids are paid is ``won`` times it."""
    won: tuple[float, ...]
    """[ratio bin] → chance that a bid at its upper edge runs."""


@dataclass(frozen=True, slots=True)
class MachineTable:
    """Of one machine, or of any by the pool. Costs in $, flat [slack][work][level]."""

    odds: tuple[LevelOdds, ...]
    run: memoryview
    paused: memoryview


class AuctionTables:
    """The tables for one shape. Reading them is pure and takes microseconds; making them takes a second or so."""

    def __init__(self, shape: AuctionShape) -> None:
        self.shape = shape
        self.step_s = shape.floors.step_s
        self.levels = len(shape.floors.typical)
        self.work_steps = _work_steps(shape)
        start, on_demand, machines = _induced(shape)
        self.start, self.on_demand = _flat(start), _flat(on_demand)
        self.pooled, *own = (
            MachineTable(_odds(jumps, shape), _flat(run), _flat(paused)) for jumps, run, paused in machines
        )
        self._own = {name: table for (name, _), table in zip(shape.floors.own, own, strict=True)}

    def of(self, machine: str) -> MachineTable:
        return self._own.get(machine, self.pooled)

    def level(self, floor: float) -> int:
        return bisect_left(self.shape.floors.edges, floor)

    def row(self, table: memoryview, steps_left: int, work: float) -> list[float]:
        """$ by level, at that many whole steps left and that much work in steps; linear in work."""
        levels = self.levels
        if work <= 0.0:
            return [0.0] * levels
        low = min(int(work), self.work_steps - 1)
        share = min(work - low, 1.0)
        at = (min(max(steps_left - low, 0), SLACK_STEPS) * (self.work_steps + 1) + low) * levels
        row: list[float] = table[at : at + levels].tolist()
        if not share:
            return row
        at = (min(max(steps_left - low - 1, 0), SLACK_STEPS) * (self.work_steps + 1) + low + 1) * levels
        return [a + share * (b - a) for a, b in zip(row, table[at : at + levels].tolist(), strict=True)]


@lru_cache(maxsize=32)
def auction_tables(shape: AuctionShape) -> AuctionTables:
    """The tables for a shape, made once. Off the event loop, please: it takes a second or so."""
    return AuctionTables(shape)


def _work_steps(shape: AuctionShape) -> int:
    return int(shape.longest_work_s / shape.floors.step_s) + 1 + SPARE_STEPS


def _flat(values: Any) -> memoryview:
    return memoryview(values.astype("float32").ravel())


def _kernel(jumps: Jumps, shape: AuctionShape) -> Any:
    """[level, ratio bin, next level], with the chance that the machine is taken whatever is bid."""
    import numpy as np

    kernel = np.zeros((len(jumps), BINS, len(jumps)))
    for level, bins in enumerate(jumps):
        for size, row in enumerate(bins):
            for to, share in row:
                kernel[level, size, to] = share
    taken = 1.0 - (1.0 - min(shape.lost_per_h, 1.0)) ** (shape.floors.step_s / 3600)
    kernel *= 1.0 - taken
    kernel[:, -1, -1] += taken
    return kernel


def _odds(jumps: Jumps, shape: AuctionShape) -> tuple[LevelOdds, ...]:
    import numpy as np

    kernel, ratios = _kernel(jumps, shape), np.array(shape.floors.ratios)
    mass = kernel.sum(2)
    won = np.cumsum(mass, 1)
    clearing = np.cumsum(mass * ratios, 1)
    edges = np.array(RATIO_EDGES)
    paid = won * edges if shape.pays_bid else clearing

    def sparse(row: Sequence[float]) -> tuple[tuple[int, float], ...]:
        return tuple((to, share) for to, share in enumerate(row) if share > 0.0)

    return tuple(
        LevelOdds(
            tuple(sparse(row) for row in kernel[level].tolist()),
            sparse(kernel[level].sum(0).tolist()),
            tuple(paid[level].tolist()),
            tuple(clearing[level].tolist()),
            tuple(won[level].tolist()),
        )
        for level in range(len(jumps))
    )


def _induced(shape: AuctionShape) -> tuple[Any, Any, list[tuple[Jumps, Any, Any]]]:
    """Arrays [slack, work, level] of $: start, on-demand, and (jumps, run, paused) of the pool and each machine."""
    import numpy as np

    floors, step_s = shape.floors, shape.floors.step_s
    step_h, levels, work_steps = step_s / 3600, len(floors.typical), _work_steps(shape)
    storage, on_demand_step = shape.storage_rate * step_h, (shape.on_demand_rate + shape.storage_rate) * step_h
    migrate, resume = shape.migrate_s / step_s, shape.resume_s / step_s
    loss = max((shape.checkpoint_s / step_s - 1) / 2, 0.0)
    least_slack = 1 + loss + migrate + shape.reserve_s / step_s
    elsewhere = np.array(floors.elsewhere).T
    bids = _Bids(shape)
    pool, *own = [_Machine(jumps, shape, bids) for jumps in (floors.pooled, *(jumps for _, jumps in floors.own))]
    moves = _kernel(floors.pooled, shape).sum(1).T
    size = (SLACK_STEPS + 1, work_steps + 1, levels)
    start, on_demand = np.zeros(size), np.zeros(size)
    for left in range(1, SLACK_STEPS + work_steps + 1):
        work = np.arange(max(1, left - SLACK_STEPS), min(work_steps, left) + 1)
        slack = left - work
        forced = ((work + migrate) * on_demand_step)[:, None]
        start[slack, work], on_demand[slack, work] = forced, (work * on_demand_step)[:, None]
        for machine in (pool, *own):
            machine.run[slack, work] = machine.paused[slack, work] = forced
        safe = slack >= least_slack
        if not safe.any():
            continue
        work, slack, forced = work[safe], slack[safe], forced[safe]
        read = _Reader(left - 1, work_steps)
        fresh = pool.option(read(pool.run, work + (migrate - 1)), read(pool.paused, work + (migrate - resume)))
        waiting = start[slack - 1, work] @ moves
        begun = start[slack, work] = np.minimum(np.minimum(forced, waiting), fresh + storage)
        on_demand[slack, work] = np.minimum(on_demand_step + on_demand[slack, work - 1] @ moves, begun)
        leave = np.minimum(forced, begun @ elsewhere)
        for machine in (pool, *own):
            running = machine.option(read(machine.run, work - 1.0), read(machine.paused, work + loss))
            resumed = machine.option(read(machine.run, work + (resume - 1)), read(machine.paused, work * 1.0))
            machine.run[slack, work] = np.minimum(leave, running + storage)
            machine.paused[slack, work] = np.minimum(leave, resumed + storage)
    return start, on_demand, [(machine.jumps, machine.run, machine.paused) for machine in (pool, *own)]


class _Bids:
    """The bids that are tried at each level's typical floor: its ratios' edges, and the ceiling."""

    def __init__(self, shape: AuctionShape) -> None:
        import numpy as np

        self.typical = np.array(shape.floors.typical)[:, None]
        self.ratios = np.array(shape.floors.ratios)
        bids = self.typical * np.array(RATIO_EDGES)
        self.usable = bids < shape.ceiling
        self.bids = np.where(self.usable, bids, 0.0)
        self.last = np.maximum(self.usable.sum(1) - 1, 0)
        """The last bin below the ceiling: jumps that only just fit under it are not counted."""
        self.any = self.usable.any(1)


class _Machine:
    """The tables of one machine while they are filled."""

    def __init__(self, jumps: Jumps, shape: AuctionShape, bids: _Bids) -> None:
        import numpy as np

        levels = len(jumps)
        self.jumps = jumps
        kernel = _kernel(jumps, shape)
        self._moves = kernel.sum(1).T
        self._won_moves = np.cumsum(kernel, 1).reshape(levels * BINS, levels).T.copy()
        mass = kernel.sum(2)
        won, cleared = np.cumsum(mass, 1), np.cumsum(mass * bids.ratios * bids.typical, 1)
        each = np.arange(levels)
        at_ceiling = shape.ceiling * won if shape.pays_bid else cleared
        pay = np.where(bids.usable, bids.bids * won if shape.pays_bid else cleared, np.inf)
        ceiling_pays_less = bids.any & (at_ceiling[each, bids.last] < pay[each, bids.last])
        pay[each[ceiling_pays_less], bids.last[ceiling_pays_less]] = at_ceiling[
            each[ceiling_pays_less], bids.last[ceiling_pays_less]
        ]
        self._pay = pay * shape.floors.step_s / 3600
        self._shape = (-1, levels, BINS)
        size = (SLACK_STEPS + 1, _work_steps(shape) + 1, levels)
        self.run, self.paused = np.zeros(size), np.zeros(size)

    def option(self, run: Any, paused: Any) -> Any:
        """The least of all bids and of none, without storage; rows over work, by next level in, by level out."""
        import numpy as np

        gain = ((run - paused) @ self._won_moves).reshape(self._shape)
        gain += self._pay
        return paused @ self._moves + np.minimum(gain.min(2), 0.0)


class _Reader:
    """Rows of a table at one time left, linear in work."""

    def __init__(self, left: int, work_steps: int) -> None:
        self._left, self._work_steps = left, work_steps

    def __call__(self, table: Any, work: Any) -> Any:
        import numpy as np

        low = np.minimum(np.maximum(work, 0.0).astype(int), self._work_steps - 1)
        share = np.clip(work - low, 0.0, 1.0)[:, None]
        row = table[np.clip(self._left - low, 0, SLACK_STEPS), low]
        if not share.any():
            return row
        above = table[np.clip(self._left - low - 1, 0, SLACK_STEPS), low + 1]
        return row + share * (above - row)
