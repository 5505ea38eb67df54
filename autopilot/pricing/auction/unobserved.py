"""What may have become of the floor of a machine that runs under our bid, where it is not shown.

It was at the level of the bid when that was made, and has not risen above it since, or the machine would not run. So it
is a hidden Markov chain of one observation, "not above": p ← p · M, without the levels above the bid, and scaled to
a sum of 1 again (the filter of Rabiner, Proc. IEEE 1989, III.A).
"""

from __future__ import annotations

from autopilot.pricing.arrays import Floats

MOST_STEPS = 288
"""A bid that is older counts as that old: by then the chain has long settled."""


class UnobservedFloor:
    """Of one machine from one level. ``moves``: [level, next level] → chance, square, of the levels up to that one."""

    def __init__(self, moves: Floats) -> None:
        import numpy as np

        first = np.zeros(len(moves))
        first[-1] = 1.0
        self._moves = moves
        self._beliefs = [first]

    def at_most(self, level: int, steps: int) -> float:
        """Chance that it is at that level or a lower one, so many steps after the bid."""
        steps = min(steps, MOST_STEPS)
        while len(self._beliefs) <= steps:
            last = self._beliefs[-1]
            belief = last @ self._moves
            # A chain that only rises says nothing of a machine that runs.
            self._beliefs.append(belief / belief.sum() if belief.any() else last)
        return float(self._beliefs[steps][: level + 1].sum())
