"""Beliefs gathered into clusters: a market of which one can never be sure, made into one that can be planned for.

Averaging plans made for known phases (QMDP) takes it for granted that the phase will be known a step later, and plans
too boldly. Here the filter itself is simulated: beliefs that promise the same availability over the next ten minutes,
hour, six hours and day and a half are one cluster, and the moves between clusters are those of the simulated filter.
A belief is read as its nearest clusters, weighted by nearness (a grid approximation of a POMDP; Lovejoy 1991).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from autopilot.domain.outlook import Belief, PhaseModel
from autopilot.pricing.arrays import Flags, Floats
from autopilot.pricing.availability.phases import stationary, transition

if TYPE_CHECKING:
    import numpy as np

PER_SIGN = 16
"""Clusters of beliefs that saw spot on, and as many of those that saw it off."""
NEAREST = 3
HORIZONS_H = (1 / 6, 1.0, 6.0, 36.0)
CHAINS = 400
"""Simulated markets, each looked at as often."""
SAMPLE = 8000
ROUNDS = 20
TINY = 1e-6

Weights = tuple[tuple[int, float], ...]
"""(cluster, weight) of the clusters that stand for a belief; weights sum to 1."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters 0…15 saw spot on, 16…31 off."""

    promises: tuple[tuple[float, ...], ...]
    """For each horizon the mean availability within it from each phase."""
    centres: tuple[tuple[float, ...], ...]
    moves: tuple[tuple[float, ...], ...]
    """Probability of each cluster one step after each cluster."""

    def weights(self, belief: Belief, *, is_on: bool) -> Weights:
        ten, hour, six, day = (sum(map(float.__mul__, promise, belief)) for promise in self.promises)
        first = 0 if is_on else PER_SIGN
        distances = [
            (a - ten) ** 2 + (b - hour) ** 2 + (c - six) ** 2 + (d - day) ** 2
            for a, b, c, d in self.centres[first : first + PER_SIGN]
        ]
        near: list[tuple[int, float]] = []
        for _ in range(NEAREST):
            least = min(distances)
            number = distances.index(least)
            near.append((first + number, 1.0 / (least + TINY)))
            distances[number] = float("inf")
        total = sum(weight for _, weight in near)
        return tuple((number, weight / total) for number, weight in near)


@lru_cache(maxsize=32)
def clusters(model: PhaseModel, step_s: float) -> Clusters:
    """The clusters for looks ``step_s`` apart; the same on every machine. Takes a second or so."""
    import numpy as np

    rng = np.random.default_rng(0)
    promises = _promises(model, step_s)
    on, features = _simulate(model, step_s, np.array(promises), rng)
    flat, flat_on = features.reshape(-1, len(HORIZONS_H)), on.ravel()
    centres = [_centres(flat[flat_on == sign], rng) for sign in (True, False)]
    numbers, shares = np.empty((len(flat), NEAREST), int), np.empty((len(flat), NEAREST))
    for sign, own, first in ((True, centres[0], 0), (False, centres[1], PER_SIGN)):
        chosen = flat_on == sign
        distance = _distances(flat[chosen], own)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, :NEAREST]
        nearness = 1.0 / (np.take_along_axis(distance, nearest, axis=1) + TINY)
        numbers[chosen] = nearest + first
        shares[chosen] = nearness / _sum(nearness)[:, None]
    # From here on: [look, chain, one of the nearest].
    numbers, shares = numbers.reshape(*on.shape, NEAREST), shares.reshape(*on.shape, NEAREST)
    count = 2 * PER_SIGN
    moves = np.zeros(count * count)
    for before in range(NEAREST):
        for after in range(NEAREST):
            pairs = numbers[:-1, :, before] * count + numbers[1:, :, after]
            weights = shares[:-1, :, before] * shares[1:, :, after]
            moves += np.bincount(pairs.ravel(), weights.ravel(), count * count)
    square = moves.reshape(count, count)
    square = square / np.maximum(_sum(square), TINY)[:, None]
    return Clusters(
        promises,
        tuple(tuple(row) for own in centres for row in own.tolist()),
        tuple(tuple(row) for row in square.tolist()),
    )


def _promises(model: PhaseModel, step_s: float) -> tuple[tuple[float, ...], ...]:
    steps = [max(1, round(hours * 3600 / step_s)) for hours in HORIZONS_H]
    moves = transition(model, step_s)
    chance = [1.0 if on else 0.0 for on in model.on]
    sums, found = [0.0] * len(chance), {}
    for step in range(1, max(steps) + 1):
        chance = [sum(map(float.__mul__, row, chance)) for row in moves]
        sums = [total + now for total, now in zip(sums, chance, strict=True)]
        found[step] = tuple(total / step for total in sums)
    return tuple(found[step] for step in steps)


def _simulate(model: PhaseModel, step_s: float, promises: Floats, rng: np.random.Generator) -> tuple[Flags, Floats]:
    """Whether spot was on, [look, chain], and what the filter's belief promised, [look, chain, horizon].

    ``promises``: [horizon, phase] → mean availability within the horizon.
    """
    import numpy as np

    moves, start = np.array(transition(model, step_s)), np.array(stationary(model))
    phase_on, last = np.array(model.on), len(start) - 1
    reached = np.cumsum(moves, axis=1)
    drawn = rng.random(CHAINS)[:, None] > np.cumsum(start)
    phase = np.minimum(drawn.sum(axis=1), last)
    belief = np.tile(start, (CHAINS, 1))
    on, features = np.empty((CHAINS, CHAINS), bool), np.empty((CHAINS, CHAINS, len(promises)))
    for look in range(CHAINS):
        if look:
            drawn = rng.random(CHAINS)[:, None] > reached[phase]
            phase = np.minimum(drawn.sum(axis=1), last)
            belief = _times(belief, moves)
        agrees = phase_on[None] == phase_on[phase][:, None]
        belief = np.where(agrees, belief, 0.0)
        belief = belief / _sum(belief)[:, None]
        features[look] = _times(belief, promises.T)
        on[look] = phase_on[phase]
    return on, features


def _centres(features: Floats, rng: np.random.Generator) -> Floats:
    """[cluster, horizon], by k-means (Lloyd 1982) over a sample of the features, [look, horizon].

    An empty cluster keeps its centre.
    """
    import numpy as np

    if not len(features):
        return np.zeros((PER_SIGN, len(HORIZONS_H)))  # a market that is never so
    sample = features[rng.permutation(len(features))[:SAMPLE]]
    centres = np.resize(sample[:PER_SIGN], (PER_SIGN, sample.shape[1]))
    for _ in range(ROUNDS):
        nearest = np.argmin(_distances(sample, centres), axis=1)
        members = np.bincount(nearest, minlength=PER_SIGN)
        for axis in range(centres.shape[1]):
            sums = np.bincount(nearest, sample[:, axis], PER_SIGN)
            means = sums / np.maximum(members, 1)
            centres[:, axis] = np.where(members > 0, means, centres[:, axis])
    return centres


# Sums in one written order, not by a BLAS whose order differs between machines: equal input, equal table, everywhere.


def _distances(points: Floats, centres: Floats) -> Floats:
    """[point, axis] and [centre, axis] → squares of distances, [point, centre]."""
    import numpy as np

    total = np.zeros((len(points), len(centres)))
    for axis in range(points.shape[1]):
        total += (points[:, None, axis] - centres[None, :, axis]) ** 2
    return total


def _times(left: Floats, right: Floats) -> Floats:
    """The product of two matrices."""
    import numpy as np

    total = np.zeros((len(left), right.shape[1]))
    for number in range(len(right)):
        total += left[:, number, None] * right[number]
    return total


def _sum(rows: Floats) -> Floats:
    """The sum of each row."""
    import numpy as np

    total = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        total += rows[:, column]
    return total
