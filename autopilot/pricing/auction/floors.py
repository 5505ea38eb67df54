"""What recorded floors say of the next ones: an empirical Markov chain, by level of the floor and by size of the jump.

    N_m[l, k, l']   jumps of machine m from level l by a ratio in bin k to level l', newer ones weighing more
    P_0 = (Σ_m N_m + κ0 · prior) / (Σ_m n_m + κ0)      prior: the jump sizes of all levels, from any level
    P_m = (N_m + κ · P_0) / (n_m + κ)                  each machine's own, shrunk to the pool (empirical Bayes)

The size of the next jump depends more on how far a floor is above the calm floor of its own machine (a low quantile of
what was seen of it) than on its level: who holds a cheap machine for more is outbid by few. So sizes are counted by
that as well, and shrunk to the pool likewise.

What else there is to rent is a class of the cheapest floor that is seen, and a Markov chain as well; where there was
nothing to be had at times, that is a class of its own.

Levels lie densely just above the calm floor and ever wider higher up: a floor's distance from its calm state is what
tells of the next jump. Among the floors that are common none is wide: machines differ in price, and a far cheaper one
must not pass for its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf

from autopilot.domain.floors import RATIO_EDGES, RISES, FloorOutlook, Habit, Jumps, Sizes
from autopilot.pricing.arrays import Flags, Floats, Indices
from autopilot.pricing.auction.replays import replay

BINS = len(RATIO_EDGES)
LOWEST_RATIO, HIGHEST_RATIO = 0.2, 8.0
"""Beyond the outer edges: where the jumps of the outer bins are taken to lead."""
LOWEST_QUANTILE, CALM_QUANTILE, COMMON_QUANTILE = 0.002, 0.05, 0.9
OWN_CALM_QUANTILE = 0.1
"""Quantile of the floors of one machine, newer ones weighing more: its calm floor."""
FIRST_LEVEL, LEVEL_GROWTH = 0.015, 1.55
"""The first level's width above the calm floor, as a share of it, and how much further each next one reaches."""
COMMON_LEVEL, MOST_COMMON = 0.09, 12
"""How wide a level of common floors may be above the first ones, and is below the calm floor, as a share of the one
before; wider where the common floors are so far apart that there would be more levels than that."""
HIGHEST_EDGE = 0.93
"""Share of the on-demand price; levels end there, at that price, and above."""
CLASSES = 4
"""Of the cheapest floor that can be had: equally frequent ones, and one more for nothing below the on-demand price."""
CLASS_WEIGHT = 5.0
"""What is taken for granted of the classes' moves weighs as much as so many steps."""


@dataclass(frozen=True, slots=True)
class FloorFit:
    """How floors are fitted; fitted in turn on synthetic markets (``backtest.fit_auction``)."""

    half_life_h: float = 60.0
    """After so long a jump counts half: regimes change."""
    pool_weight: float = 50.0
    """κ: the pool weighs as much as so many steps of a machine's own."""
    prior_weight: float = 2.0
    """κ0: the jump sizes of all levels weigh as much as so many steps at one level."""
    own_steps: float = 500.0
    """Steps, weighted, from which on a machine is known well enough to have tables of its own."""
    most_own: int = 3
    """No more machines than that have them: each costs as much as the pool."""

    def __post_init__(self) -> None:
        if min(self.half_life_h, self.pool_weight, self.prior_weight) <= 0:
            raise ValueError("half_life_h, pool_weight and prior_weight must be above 0")
        if min(self.own_steps, self.most_own) < 0:
            raise ValueError("own_steps and most_own must be at least 0")


Row = tuple[float, ...]

TUNABLE = tuple(field.name for field in fields(FloorFit))
"""What a sweep may set by name."""


def estimate(
    floors: Mapping[str, Sequence[float]], step_s: float, on_demand_price: float, fit: FloorFit
) -> FloorOutlook:
    """The outlook from machine → floors ``step_s`` apart, of equal length, oldest first, NaN where none was seen.

    Raises ValueError where no machine was seen in two steps that follow one another.
    """
    import numpy as np

    seen = np.array([np.asarray(row, float) for row in floors.values()])
    known = seen > 0.0  # neither NaN nor a floor of nothing, of which no share can be said
    pair = known[:, :-1] & known[:, 1:]
    if not pair.any():
        raise ValueError("no floor was seen twice in a row")
    lowest, calm, common = np.quantile(seen[known], (LOWEST_QUANTILE, CALM_QUANTILE, COMMON_QUANTILE)).tolist()
    edges = _edges(lowest, calm, common, on_demand_price)
    levels = len(edges) + 1
    level = np.searchsorted(edges, np.where(known, seen, 0.0))
    typical = _typical(seen, level, known, edges, on_demand_price)
    weight = _weights(seen.shape[1], step_s, fit)
    counts, paid = _counts(seen, pair, level, weight, levels)
    middle = _middle_ratios()
    pool = counts.sum(0)
    sizes = pool.sum((0, 2)) / pool.sum()
    prior = np.zeros_like(pool)
    for number in range(levels):
        leads_to = np.searchsorted(edges, typical[number] * middle)
        np.add.at(prior[number], (range(BINS), leads_to), sizes)
    pooled = _shrunk(pool, prior, fit.prior_weight)
    mass = pool.sum(2)
    ratios = np.where(mass > 0, paid / np.maximum(mass, 1e-300), middle)
    habits, usual = _habits(dict(zip(floors, seen, strict=True)), weight, sizes, step_s, fit)
    classes, cheapest, moves, others = _elsewhere(np.where(known, seen, np.inf), weight, on_demand_price)
    return FloorOutlook(
        step_s,
        tuple(edges),
        tuple(typical.tolist()),
        tuple(tuple(row) for row in ratios.tolist()),
        _jumps(pooled),
        _own(list(floors), counts, pooled, fit),
        habits,
        usual,
        classes,
        cheapest,
        moves,
        others,
        replay(seen, _weights(seen.shape[1] + 1, step_s, fit), step_s, on_demand_price),
        float(_weights(seen.shape[1] + 1, step_s, fit).sum()),
    )


def _weights(steps: int, step_s: float, fit: FloorFit) -> Floats:
    """[jump] → how much it counts: half as much after each half-life."""
    import numpy as np

    age_h = (steps - np.arange(steps - 1)) * step_s / 3600
    weights: Floats = 0.5 ** (age_h / fit.half_life_h)
    return weights


def _middle_ratios() -> Floats:
    """[ratio bin] → its representative ratio."""
    import numpy as np

    lower = np.array((LOWEST_RATIO, *RATIO_EDGES[:-1]))
    upper = np.array((*RATIO_EDGES[:-1], HIGHEST_RATIO))
    middle: Floats = np.sqrt(lower * upper)
    return middle


def _counts(seen: Floats, pair: Flags, level: Indices, weight: Floats, levels: int) -> tuple[Floats, Floats]:
    """Jumps, weighted: [machine, level, ratio bin, next level]; and the sum of their ratios: [level, ratio bin].

    ``seen``, ``level``: [machine, step]; ``pair``: [machine, step], whether it and the next step were seen.
    """
    import numpy as np

    counts = np.zeros((len(seen), levels, BINS, levels))
    paid = np.zeros((levels, BINS))
    for machine, row in enumerate(seen):
        (at,) = np.nonzero(pair[machine])
        ratio = row[at + 1] / row[at]
        size = np.searchsorted(RATIO_EDGES, ratio)
        here, there = level[machine, at], level[machine, at + 1]
        np.add.at(counts[machine], (here, size, there), weight[at])
        np.add.at(paid, (here, size), weight[at] * ratio)
    return counts, paid


def _own(names: Sequence[str], counts: Floats, pooled: Floats, fit: FloorFit) -> tuple[tuple[str, Jumps], ...]:
    """The jumps of the machines that are known best, where they are known well enough and are not alone."""
    if len(names) < 2:
        return ()
    weights = counts.sum((1, 2, 3))
    by_weight = sorted(range(len(names)), key=lambda number: (-weights[number], number))
    best_known = by_weight[: int(fit.most_own)]
    return tuple(
        (names[number], _jumps(_shrunk(counts[number], pooled, fit.pool_weight)))
        for number in sorted(best_known)
        if weights[number] >= fit.own_steps
    )


def _edges(lowest: float, calm: float, common: float, on_demand_price: float) -> list[float]:
    """Upper edges of the levels but the last, given three quantiles of the floors."""
    growth = max(1 + COMMON_LEVEL, (common / lowest) ** (1 / MOST_COMMON))
    edges, low = list[float](), calm / growth
    while low > lowest:
        edges.insert(0, low)
        low /= growth
    reach = FIRST_LEVEL
    while calm * (1 + reach) < HIGHEST_EDGE * on_demand_price:
        edges.append(calm * (1 + reach))
        most = (1 + reach) * growth - 1 if edges[-1] < common else inf
        reach = min(reach * LEVEL_GROWTH, most)
    return [*edges, on_demand_price]


def _typical(seen: Floats, level: Indices, known: Flags, edges: Sequence[float], on_demand_price: float) -> Floats:
    """The median floor of each level; of one that was not seen its middle, and far above on-demand of the last.

    ``seen``, ``level``, ``known``: [machine, step].
    """
    import numpy as np

    below = (edges[0] / (1 + FIRST_LEVEL), *edges[:-1])
    typical = [(low * high) ** 0.5 for low, high in zip(below, edges, strict=True)] + [2 * on_demand_price]
    for number in range(len(typical) - 1):
        own = known & (level == number)
        if own.any():
            typical[number] = float(np.median(seen[own]))
    return np.array(typical)


def _habits(
    seen: Mapping[str, Floats], weight: Floats, sizes: Floats, step_s: float, fit: FloorFit
) -> tuple[tuple[tuple[str, Habit], ...], Sizes]:
    """Of every machine that was seen twice in a row, and of all of them.

    ``seen``: machine → [step]; ``weight``: [jump]; ``sizes``: [ratio bin], of all jumps, the prior.
    """
    import numpy as np

    calm, counts = dict[str, float](), dict[str, Floats]()
    pool = np.zeros((len(RISES), BINS))
    for name, row in seen.items():
        (at,) = np.nonzero((row[:-1] > 0.0) & (row[1:] > 0.0))
        if not len(at):
            continue
        calm[name] = _calm(row, fit.half_life_h * 3600 / step_s)
        counts[name] = np.zeros((len(RISES), BINS))
        rise = np.searchsorted(RISES, row[at] / calm[name])
        size = np.searchsorted(RATIO_EDGES, row[at + 1] / row[at])
        np.add.at(counts[name], (rise, size), weight[at])
        pool += counts[name]
    usual = _row_shares(pool, sizes, fit.prior_weight)
    habits = tuple(
        (name, Habit(calm[name], _rows(_row_shares(own, usual, fit.pool_weight)))) for name, own in counts.items()
    )
    return habits, _rows(usual)


def _calm(row: Floats, half_life_steps: float) -> float:
    """The calm floor of one machine, from its floors by step, NaN where none was seen."""
    import numpy as np

    (at,) = np.nonzero(row > 0.0)
    order = np.argsort(row[at], kind="stable")
    age = len(row) - 1 - at[order]
    reached = np.cumsum(0.5 ** (age / half_life_steps))
    number = np.searchsorted(reached, OWN_CALM_QUANTILE * reached[-1])
    return float(row[at][order][number])


def _shrunk(counts: Floats, prior: Floats, weight: float) -> Floats:
    """[level, ratio bin, next level] → shares of each level, the prior weighing as much as so many steps."""
    of_level = counts.sum((1, 2)) + weight
    shares: Floats = (counts + weight * prior) / of_level[:, None, None]
    return shares


def _row_shares(counts: Floats, prior: Floats, weight: float) -> Floats:
    """[row, column] → shares of each row, the prior weighing as much as so many steps."""
    of_row = counts.sum(1) + weight
    shares: Floats = (counts + weight * prior) / of_row[:, None]
    return shares


def _rows(values: Floats) -> tuple[Row, ...]:
    return tuple(tuple(row) for row in values.tolist())


def _jumps(kernel: Floats) -> Jumps:
    """``kernel``: [level, ratio bin, next level]."""
    return tuple(
        tuple(tuple((to, share) for to, share in enumerate(row) if share > 0.0) for row in rows)
        for rows in kernel.tolist()
    )


def _elsewhere(
    shown: Floats, weight: Floats, on_demand_price: float
) -> tuple[Row, Row, tuple[Row, ...], tuple[Row, ...]]:
    """Edges of the classes of the cheapest floor; by class, its typical floor, its moves, and the second cheapest.

    ``shown``: [machine, step], infinite where none was seen; ``weight``: [jump].
    """
    import numpy as np

    none = np.full((2, shown.shape[1]), np.inf)
    ordered = np.sort(np.vstack((shown, none)), axis=0)
    first, second = np.minimum(ordered[:2], 2 * on_demand_price)
    there = first[first <= on_demand_price]
    quantiles = np.arange(1, CLASSES) / CLASSES
    edges = np.unique(np.quantile(there, quantiles)) if len(there) else np.array(())
    if len(there) < len(first):
        edges = np.append(edges, on_demand_price)
    count = len(edges) + 1
    of_first, of_second = np.searchsorted(edges, first), np.searchsorted(edges, second)
    members = [first[of_first == number] for number in range(count)]
    cheapest = tuple(float(np.median(own)) if len(own) else float(edges[-1]) for own in members)
    moves, others = np.zeros((count, count)), np.zeros((count, count))
    np.add.at(moves, (of_first[:-1], of_first[1:]), weight)
    np.add.at(others, (of_first[:-1], of_second[:-1]), weight)
    return (
        tuple(edges.tolist()),
        cheapest,
        _rows(_row_shares(moves, np.eye(count), CLASS_WEIGHT)),
        _rows(_row_shares(others, others.sum(0) / others.sum(), CLASS_WEIGHT)),
    )
