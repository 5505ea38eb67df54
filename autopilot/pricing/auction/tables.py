"""What a job is expected to cost from here to its end where spot machines are auctioned off.

Backward induction over (time left T, work left w, level l of the floor of the machine that is held, class c of the
cheapest floor elsewhere), a step at a time, in dollars. With d = migrate, e = resume, a = what a pause throws back at
the mean, o = a step on demand, f = (w + d) · o, and E over the next level and class:

    start   S(T,w,c)   = min( f, E S(T−1,w,c'), B[ R(T−1, w+d−1), Z(T−1, w+d−e) ] at the level of c )  nothing is held
    demand  O(T,w,c)   = min( o + E O(T−1,w−1,c'), S(T,w,c) )                                          on-demand runs
    run     R(T,w,l,c) = min( f, S(T,w,c), B[ R(T−1, w−1), Z(T−1, w+a) ] )                             a machine runs
    paused  Z(T,w,l,c) = min( f, S(T,w,c), B[ R(T−1, w+e−1), Z(T−1, w) ] )                             or is paused

B is the least over bids (the floor times a ratio's edge below the ceiling, or none) of storage + E[pay + run; won] +
E[paused; lost]. Where on-demand capacity must be started so that the deadline is kept, all is f (O = w · o): the guard
is part of the model. In a class in which nothing is to be had there is no B in S. Where the floors of machines that run
are not shown (``shows_running``) and bids are paid, R at a lower level counts as at the same: the bid is paid on. Slack
T − w is capped: more of it is worth nothing more. A machine that is started moves by the pooled jumps. What is kept of
each is its mean over the next class.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import cast

from autopilot.domain.floors import RATIO_EDGES, RISES, AuctionShape, Jumps
from autopilot.pricing.arrays import Floats, Indices, Singles
from autopilot.pricing.auction.unobserved import UnobservedFloor

SLACK_STEPS = 72
SPARE_STEPS = 5
"""Beyond the longest work: for set-ups and work that is thrown back."""
BINS = len(RATIO_EDGES)
SLACK_DISCOUNT, SLACK_FADES_STEPS = 0.0006, 10.0
"""Tables make too much of slack where it is scarce and much work is left: what they foretell there is read as less by
this share for each step of work, and by e times less of it for so many steps of slack."""
NEVER = 1e6
"""Dollars: the price of a bid that may not be made."""


@dataclass(frozen=True, slots=True, eq=False)
class Odds:
    """The next step of one machine from one floor. A bid at a bin's upper edge wins against that bin and all below."""

    won: Floats
    """[ratio bin, next level] → chance that a bid at the bin's upper edge runs, and what level comes with it."""
    moves: Floats
    """[next level] → its chance, at any bid."""
    paid: Floats
    """[ratio bin] → what such a bid pays at the mean, over this floor; nothing if it does not run."""


@dataclass(frozen=True, slots=True)
class MachineTable:
    """Of one machine, or of any by the pool. Costs in $, flat [slack][work][class][level]."""

    leads: Floats
    """[level, ratio bin, next level] → where a jump of that size leads; each bin's sum is 1, or 0."""
    run: memoryview
    paused: memoryview


class AuctionTables:
    """The tables for one shape. Reading them is pure and takes microseconds; making them takes a second or so."""

    def __init__(self, shape: AuctionShape) -> None:
        self.shape = shape
        self.step_s = shape.floors.step_s
        self.levels = len(shape.floors.typical)
        self.work_steps = _work_steps(shape)
        self._migrate = shape.migrate_s / self.step_s
        self._on_demand_step = (shape.on_demand_price + shape.storage_rate) * self.step_s / 3600
        self.classes = len(shape.floors.cheapest)
        start, on_demand, machines = _induce(shape)
        self.start, self.on_demand = _flat(start), _flat(on_demand)
        """Flat [slack][work][class]."""
        self.pooled, *own = (MachineTable(_leads(jumps), _flat(run), _flat(paused)) for jumps, run, paused in machines)
        self._own = {name: table for (name, _), table in zip(shape.floors.own, own, strict=True)}
        self._habits = dict(shape.floors.habits)
        self._odds: dict[tuple[str, int, int], Odds] = {}
        self._unobserved: dict[tuple[str, int], UnobservedFloor] = {}

    @property
    def sees_falls(self) -> bool:
        """Whether a floor that falls while its machine runs is known, by a list or by what it is paid."""
        return self.shape.shows_running or not self.shape.bills_at_bid

    def of(self, machine: str) -> MachineTable:
        return self._own.get(machine, self.pooled)

    def odds(self, machine: str, floor: float) -> Odds:
        """Odds of the next floor of a machine. One that was never seen before is assumed to be calm."""
        habit = self._habits.get(machine)
        rise = 0 if habit is None else bisect_left(RISES, floor / habit.calm)
        level = self.level(floor)
        key = (machine if habit is not None else "", level, rise)
        odds = self._odds.get(key)
        if odds is None:
            sizes = self.shape.floors.usual if habit is None else habit.sizes
            odds = self._odds[key] = _odds(self.of(machine).leads[level], sizes[rise], level, self.shape)
        return odds

    def calm(self, machine: str) -> float | None:
        """$/h: its floor while it has no bidder; None for a machine that was never seen twice in a row."""
        habit = self._habits.get(machine)
        return None if habit is None else habit.calm

    def fallen(self, machine: str, floor: float, to: float, steps: int) -> float:
        """Chance that a floor not seen for so many steps, in which it never rose, is at most at the level of ``to``."""
        import numpy as np

        level, goal = self.level(floor), self.level(to)
        if goal >= level:
            return 0.0
        unobserved = self._unobserved.get((machine, level))
        if unobserved is None:
            typical = self.shape.floors.typical[: level + 1]
            moves = np.array([self.odds(machine, each).moves[: level + 1] for each in typical])
            unobserved = self._unobserved[machine, level] = UnobservedFloor(moves)
        return unobserved.at_most(goal, steps)

    def level(self, floor: float) -> int:
        return bisect_left(self.shape.floors.edges, floor)

    def beside(self, level: int, floor: float) -> tuple[int, float]:
        """The neighbour on the side of a level on which a floor lies, and how far towards it, from 0 to 1.

        What lies above the on-demand price is one level, and all its floors are alike.
        """
        typical = self.shape.floors.typical
        neighbour = level + 1 if floor > typical[level] else level - 1
        last = self.levels - 1
        if level == last or not 0 <= neighbour < last:
            return level, 0.0
        share = (floor - typical[level]) / (typical[neighbour] - typical[level])
        return neighbour, min(share, 1.0)

    def elsewhere(self, floor: float) -> int:
        """The class of the cheapest floor elsewhere."""
        return bisect_left(self.shape.floors.classes, floor)

    def levels_row(self, table: memoryview, left: int, work: float, elsewhere: int) -> list[float]:
        """$ by level, at that many whole steps left and that much work in steps; linear in work, slack discounted."""
        return self._row(table, left, work, elsewhere * self.levels, self.levels, self.classes * self.levels)

    def cost(self, table: memoryview, left: int, work: float, elsewhere: int) -> float:
        """$ of starting, or of on-demand capacity."""
        return self._row(table, left, work, elsewhere, 1, self.classes)[0]

    def _row(self, table: memoryview, left: int, work: float, first: int, count: int, width: int) -> list[float]:
        if work <= 0.0:
            return [0.0] * count
        # What is started is paid: less than a step is not cheaper than one by what it is less.
        work = max(work, 1.0)
        low = min(int(work), self.work_steps - 1)
        share = min(work - low, 1.0)
        at = self._row_of(left, low) * width + first
        row = cast(list[float], table[at : at + count].tolist())
        if share:
            at = self._row_of(left, low + 1) * width + first
            above = cast(list[float], table[at : at + count].tolist())
            row = [a + share * (b - a) for a, b in zip(row, above, strict=True)]
        if self.shape.shows_running:
            return row
        slack = max(left - work, 0.0)
        discount = SLACK_DISCOUNT * work * exp(-slack / SLACK_FADES_STEPS)
        # On-demand capacity for all the rest costs what it costs.
        start = 0.0 if table is self.on_demand else self._migrate
        forced = (work + start) * self._on_demand_step
        return [cost - discount * _at_stake(cost, forced - cost) for cost in row]

    def _row_of(self, left: int, work: int) -> int:
        """The number of a row by slack and work: so many whole steps are left, and so many needed."""
        slack = min(max(left - work, 0), SLACK_STEPS)
        return slack * (self.work_steps + 1) + work


def _at_stake(cost: float, dearer: float) -> float:
    """$ that the discount is a share of: the cost or, if that is less, by how much on-demand capacity would cost more.

    Less again where that is several times as dear: there slack is worth what the tables say.
    """
    return max(dearer, 0.0) if dearer <= cost else cost * cost / dearer


@lru_cache(maxsize=8)
def auction_tables(shape: AuctionShape) -> AuctionTables:
    """The tables for a shape, made once. Blocking (about 1 s); call from a worker thread."""
    return AuctionTables(shape)


def _work_steps(shape: AuctionShape) -> int:
    return int(shape.longest_work_s / shape.floors.step_s) + 1 + SPARE_STEPS


def _flat(values: Singles) -> memoryview:
    return values.ravel().data


def _dense(jumps: Jumps) -> Floats:
    """[level, ratio bin, next level]"""
    import numpy as np

    kernel = np.zeros((len(jumps), BINS, len(jumps)))
    for level, bins in enumerate(jumps):
        for size, row in enumerate(bins):
            for to, share in row:
                kernel[level, size, to] = share
    return kernel


def _kernel(jumps: Jumps, shape: AuctionShape) -> Floats:
    """[level, ratio bin, next level], with the chance that the machine is lost at any bid."""
    kernel, taken = _dense(jumps), _chance_taken(shape)
    kernel *= 1.0 - taken
    kernel[:, -1, -1] += taken
    return kernel


def _leads(jumps: Jumps) -> Floats:
    """[level, ratio bin, next level] → chance by size of the jump: ``MachineTable.leads``."""
    import numpy as np

    kernel = _dense(jumps)
    of_size = np.maximum(kernel.sum(2), 1e-300)
    leads: Floats = kernel / of_size[:, :, None]
    return leads


def _odds(leads: Floats, sizes: Sequence[float], level: int, shape: AuctionShape) -> Odds:
    """``leads``: [ratio bin, next level], from that level. ``sizes``: how likely each bin is, if it is not taken."""
    import numpy as np

    taken = _chance_taken(shape)
    kernel = leads * np.array(sizes)[:, None] * (1.0 - taken)
    kernel[-1, -1] += taken
    mass = kernel.sum(1)
    if shape.bills_at_bid:
        paid = np.cumsum(mass) * np.array((*RATIO_EDGES[:-1], NEVER))
    else:
        paid = np.cumsum(mass * np.array(shape.floors.ratios[level]))
    return Odds(np.cumsum(kernel, 0), kernel.sum(0), paid)


def _chance_taken(shape: AuctionShape) -> float:
    """Chance, a step, that a machine is lost at any bid."""
    kept_an_hour = 1.0 - min(shape.lost_per_h, 1.0)
    return float(1.0 - kept_an_hour ** (shape.floors.step_s / 3600))


def _induce(shape: AuctionShape) -> tuple[Singles, Singles, list[tuple[Jumps, Singles, Singles]]]:
    """Arrays of $: start and on-demand [slack, work, class]; (jumps, run, paused) of the pool and each machine.

    Of machines: [slack, work, class, level].
    """
    import numpy as np

    floors, step_s = shape.floors, shape.floors.step_s
    step_h, classes, work_steps = step_s / 3600, len(floors.cheapest), _work_steps(shape)
    storage = shape.storage_rate * step_h
    on_demand_step = (shape.on_demand_price + shape.storage_rate) * step_h
    migrate, resume = shape.migrate_s / step_s, shape.resume_s / step_s
    loss = max((shape.checkpoint_s / step_s - 1) / 2, 0.0)
    least_slack = 1 + loss + migrate + shape.reserve_s / step_s
    moves, others = np.array(floors.moves, np.float32), np.array(floors.others, np.float32)
    to_own_level = (np.arange(classes), np.searchsorted(floors.edges, floors.cheapest))
    is_none = np.array(floors.cheapest) >= shape.ceiling
    machines = [_Machine(jumps, shape) for jumps in (floors.pooled, *(jumps for _, jumps in floors.own))]
    pool = machines[0]
    size = (SLACK_STEPS + 1, work_steps + 1, classes)
    start, on_demand = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for left in range(1, SLACK_STEPS + work_steps + 1):
        work = np.arange(max(1, left - SLACK_STEPS), min(work_steps, left) + 1)
        slack = left - work
        # On-demand capacity for all of the work, wherever the deadline leaves no choice.
        forced = ((work + migrate) * on_demand_step)[:, None].astype(np.float32)
        start[slack, work] = forced
        on_demand[slack, work] = (work * on_demand_step)[:, None]
        for machine in machines:
            machine.run[slack, work] = forced[:, :, None]
            machine.paused[slack, work] = forced[:, :, None]
        safe = slack >= least_slack
        if not safe.any():
            continue
        work, slack, forced = work[safe], slack[safe], forced[safe]
        read = _Reader(left - 1, work_steps)
        needed = work.astype(np.float64)
        # A start on the cheapest machine. Once that is held, what else there is costs more.
        to_run = np.matmul(others, read(pool.run, needed + (migrate - 1)))
        to_pause = np.matmul(others, read(pool.paused, needed + (migrate - resume)))
        by_level = pool.option(to_run, to_pause)
        at_cheapest = by_level[:, *to_own_level] + storage
        fresh = np.where(is_none, np.inf, at_cheapest)
        waited = start[slack - 1, work]
        begun = np.minimum(np.minimum(forced, waited), fresh)
        start[slack, work] = begun @ moves.T
        stayed = on_demand_step + on_demand[slack, work - 1]
        on_demand[slack, work] = np.minimum(stayed, begun) @ moves.T
        leave = np.minimum(forced, begun)[:, :, None]
        for machine in machines:
            running = machine.option(read(machine.run, needed - 1.0), read(machine.paused, needed + loss))
            resumed = machine.option(read(machine.run, needed + (resume - 1)), read(machine.paused, needed))
            machine.run[slack, work] = np.matmul(moves, np.minimum(leave, running + storage))
            machine.paused[slack, work] = np.matmul(moves, np.minimum(leave, resumed + storage))
    return start, on_demand, [(machine.jumps, machine.run, machine.paused) for machine in machines]


def _without_falls(won: Floats) -> Floats:
    """[level, bin, next level] where a lower level is not seen, and counts as the same."""
    kept = won.copy()
    for level in range(1, won.shape[2]):
        kept[level, :, level] = won[level, :, : level + 1].sum(1)
        kept[level, :, :level] = 0.0
    return kept


class _Machine:
    """The tables of one machine while they are filled."""

    def __init__(self, jumps: Jumps, shape: AuctionShape) -> None:
        import numpy as np

        levels, classes = len(jumps), len(shape.floors.cheapest)
        self.jumps = jumps
        kernel = _kernel(jumps, shape)
        self._moves: Singles = kernel.sum(1).T.astype(np.float32)
        # By [level, ratio bin]: the bids, the chances of each jump, and what a step costs that is won.
        typical = np.array(shape.floors.typical)[:, None]
        bids = typical * np.array(RATIO_EDGES)
        usable = bids < shape.ceiling
        mass = kernel.sum(2)
        if shape.bills_at_bid:
            price = np.where(usable, bids, 0.0) * np.cumsum(mass, 1)
        else:
            price = np.cumsum(mass * np.array(shape.floors.ratios), 1) * typical
        pay = np.where(usable, price * shape.floors.step_s / 3600, NEVER)[:, :, None]
        won = np.cumsum(kernel, 1)
        self._is_shown = shape.shows_running or not shape.bills_at_bid
        parts = (won, pay) if self._is_shown else (_without_falls(won), -won, pay)
        # [bin, level, next level and 1 for what is paid]. The bins first: their least is quick to find, and products
        # stay so small that a BLAS starts no threads for them, which on a busy machine cost more than they bring.
        self._gains: Singles = np.concatenate(parts, axis=2).swapaxes(0, 1).astype(np.float32)
        size = (SLACK_STEPS + 1, _work_steps(shape) + 1, classes, levels)
        self.run, self.paused = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def option(self, run: Singles, paused: Singles) -> Singles:
        """The least of all bids and of none, without storage; [work, class, next level] in, by level out."""
        import numpy as np

        rows, levels = run.shape[0] * run.shape[1], run.shape[2]
        run_by_level, paused_by_level = run.reshape(rows, levels).T, paused.reshape(rows, levels).T
        after = np.ones((self._gains.shape[2], rows), np.float32)
        if self._is_shown:
            np.subtract(run_by_level, paused_by_level, out=after[:levels])
        else:
            after[:levels] = run_by_level
            after[levels:-1] = paused_by_level
        best_bid = np.matmul(self._gains, after).min(0)
        gain = np.minimum(best_bid, 0.0)
        cost: Singles = paused @ self._moves + gain.T.reshape(run.shape)
        return cost


class _Reader:
    """Rows of a table at one time left, linear in work."""

    def __init__(self, left: int, work_steps: int) -> None:
        self._left, self._work_steps = left, work_steps

    def __call__(self, table: Singles, work: Floats) -> Singles:
        """``table``: [slack, work, …]; ``work``: [row], in steps. Gives [row, …]."""
        import numpy as np

        low = np.minimum(np.maximum(work, 0.0).astype(int), self._work_steps - 1)
        share = np.minimum(np.maximum(work - low, 0.0), 1.0)[:, None, None].astype(np.float32)
        row: Singles = table[self._slack(low), low]
        if not share.any():
            return row
        above: Singles = table[self._slack(low + 1), low + 1]
        between: Singles = row + share * (above - row)
        return between

    def _slack(self, work: Indices) -> Indices:
        import numpy as np

        slack: Indices = np.minimum(np.maximum(self._left - work, 0), SLACK_STEPS)
        return slack
