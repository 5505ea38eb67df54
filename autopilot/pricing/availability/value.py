"""The value layer: what a job is expected to cost from here to its end, under uncertainty, for each option.

Backward induction over (time left, slack, what runs, belief), with slack = time left − work left − what still must be
served before work goes on. All that can happen to slack is to shrink: by waiting, by a start, by work that is lost.
Costs are in hours of on-demand capacity, so that one table serves any price of one ratio.

    Q(on demand) = g            + E[V(slack, on demand)]
    Q(spot)      = ratio × g    + E[(1 − p) V(slack, spot) + p V(slack − lost, nothing)]
    Q(nothing)   = 0            + E[V(slack − g, nothing)]
    V(·, mode)   = the least of Q(mode) and Q(other mode) with slack − restart

``p`` is the chance that a machine is lost within a step although the market has others. Beliefs are the clusters of
``beliefs``; E goes over their moves.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, expm1

from autopilot.domain.outlook import Shape
from autopilot.pricing.arrays import Floats, Singles
from autopilot.pricing.availability.beliefs import PER_SIGN, Weights, clusters

NEVER = 1e6
"""Hours: the cost of what cannot be done."""
LATE = 3.0
"""Each hour that is missing at the deadline counts as so many hours of on-demand capacity."""

NOTHING, SPOT, ON_DEMAND = range(3)
"""What runs: the index of a table's third axis."""

FEWEST_STEPS, MOST_STEPS = 60, 450
USUAL_STEP_S = 600.0
SLACK_STEPS = 140
MOST_TABLES = 16
"""Kept at once; each takes up to 25 MB (docs/explanation/performance.md)."""


class CostToGo:
    """A table for one ``Shape``. Reading it is pure and takes microseconds; making it takes a second or so."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.step_s = table_step_s(shape.longest_s)
        self.slack_step_s = max(self.step_s, shape.most_slack_s / SLACK_STEPS)
        self.clusters = clusters(shape.phases, self.step_s)
        self.values = _induce(shape, self.step_s, self.slack_step_s)
        """[steps left, slack, what runs, cluster] → hours, float32."""
        self._steps, self._slacks, _, self._clusters = self.values.shape
        self._flat = self.values.ravel().data

    def hours(self, mode: int, left_s: float, slack_s: float, belief: Weights) -> float:
        """Expected hours of on-demand capacity to pay until the end if ``mode`` runs from now on.

        ``slack_s``: time left less work left less what that mode must still serve before work resumes. ``belief``:
        from ``clusters.weights``. Spot is priced as if available now; the caller knows whether it is.
        """
        at = min(int(left_s / self.step_s + 0.5), self._steps - 1)
        position = slack_s / self.slack_step_s
        hours = 0.0
        if position < 0.0:
            hours, position = -slack_s / 3600 * LATE, 0.0
        elif position > self._slacks - 1:
            position = float(self._slacks - 1)
        low = min(int(position), self._slacks - 2)
        share = position - low
        # Where the rows of two neighbouring slacks begin.
        here = ((at * self._slacks + low) * 3 + mode) * self._clusters
        above = here + 3 * self._clusters
        table = self._flat
        for number, weight in belief:
            between = table[here + number] * (1.0 - share) + table[above + number] * share
            hours += weight * between
        return hours


def table_step_s(longest_s: float) -> float:
    """Ten minutes, unless that makes very few or very many steps."""
    return max(min(USUAL_STEP_S, longest_s / FEWEST_STEPS), longest_s / MOST_STEPS, 1.0)


@lru_cache(maxsize=MOST_TABLES)
def cost_to_go(shape: Shape) -> CostToGo:
    """The table for a shape, made once. Blocking (about 1 s); call from a worker thread."""
    return CostToGo(shape)


def _induce(shape: Shape, step: float, grid: float) -> Singles:
    """[steps left, slack, what runs, cluster] → expected hours of on-demand capacity."""
    import numpy as np

    steps, slacks = ceil(shape.longest_s / step) + 1, ceil(shape.most_slack_s / grid) + 2
    moves: Floats = np.array(clusters(shape.phases, step).moves)
    on = np.arange(len(moves)) < PER_SIGN
    lost = -expm1(-shape.hazard_per_h * step / 3600)
    slack_s = np.arange(slacks) * grid
    is_too_late_to_idle = (slack_s < step)[:, None]
    can_start = (slack_s >= shape.restart_s)[:, None]
    table = np.zeros((steps, slacks, 3, len(on)), np.float32)
    best = np.zeros((3, slacks, len(on)))

    def less(values: Floats, seconds: float) -> Floats:
        """``values`` by slack, read that much slack lower, with the price of being late below zero."""
        position = (slack_s - seconds) / grid
        low = np.clip(np.floor(position).astype(int), 0, slacks - 2)
        share = np.clip(position - low, 0.0, 1.0)[:, None]
        late = np.maximum(-position, 0.0)[:, None] * grid / 3600 * LATE
        between: Floats = values[low] * (1 - share) + values[low + 1] * share + late
        return between

    def mean_over_beliefs(values: Floats) -> Floats:
        """Mean over the next belief, summed in one order on every machine (a BLAS would not)."""
        mean: Floats = values[:, :1] * moves[:, 0]
        for number in range(1, len(on)):
            mean += values[:, number, None] * moves[:, number]
        return mean

    for left in range(1, steps):
        work_s = left * step - slack_s
        busy = np.clip(work_s, 0.0, step)[:, None] / 3600
        is_done = work_s[:, None] <= 0
        # What each of the three costs if it runs in this step.
        too_late = (np.maximum(work_s, 0.0)[:, None] + 2 * shape.restart_s) / 3600 + 1
        waits = np.where(is_too_late_to_idle, too_late, mean_over_beliefs(less(best[NOTHING], step)))
        nothing = np.where(is_done, 0.0, waits)
        thrown_back = less(best[NOTHING], shape.lost_s) if shape.lost_s else best[NOTHING]
        kept_or_lost = (1 - lost) * best[SPOT] + lost * thrown_back
        after_spot = np.where(on, kept_or_lost, thrown_back)
        spot = np.where(is_done, 0.0, shape.spot_ratio * busy + mean_over_beliefs(after_spot))
        on_demand = np.where(is_done, 0.0, busy + mean_over_beliefs(best[ON_DEMAND]))
        table[left, :, NOTHING] = nothing
        table[left, :, SPOT] = spot
        table[left, :, ON_DEMAND] = on_demand
        # The least from each of the three, a change included.
        to_spot = np.where(on & can_start, less(spot, shape.restart_s), NEVER)
        to_on_demand = less(on_demand, shape.restart_s)
        from_nothing = np.minimum(nothing, np.minimum(to_spot, to_on_demand))
        staying = np.minimum(spot, np.minimum(nothing, to_on_demand))
        from_spot = np.where(on, staying, from_nothing)
        from_on_demand = np.minimum(on_demand, np.minimum(nothing, to_spot))
        best = np.where(is_done, 0.0, np.stack((from_nothing, from_spot, from_on_demand)))
    return table
