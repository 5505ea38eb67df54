"""How often what was said came true, with intervals: trials of one stretch of market are resampled together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tools.calibration.trial import Trial

RESAMPLES = 2000
EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95, 1.0)
"""Of the odds that are looked at together; the seventh are the jobs said to be 80 % likely."""


@dataclass(frozen=True, slots=True)
class Share:
    """Of so many trials the share that came true."""

    trials: int
    said: float
    came: float
    low: float
    high: float
    """95 % of ``came``, by resampling blocks."""


def reliability(trials: Sequence[Trial]) -> list[Share]:
    """For each range of odds: how many of those jobs were in time within their budget."""
    ranges = []
    for low, high in pairwise(EDGES):
        within = [one for one in trials if low <= one.on_time < high or one.on_time == high == 1.0]
        if within:
            ranges.append(share(within, lambda one: one.is_in_time, lambda one: one.on_time))
    return ranges


def coverage(trials: Sequence[Trial], said: float = 0.8) -> Share | None:
    """How often a job without a budget cost what the 80 % interval says. None: there is none."""
    unlimited = [one for one in trials if one.budget is None]
    return share(unlimited, lambda one: one.p10 <= one.cost <= one.p90, lambda _: said) if unlimited else None


def share(trials: Sequence[Trial], is_true: Callable[[Trial], bool], said: Callable[[Trial], float]) -> Share:
    blocks: dict[tuple[str, int], list[Trial]] = defaultdict(list)
    for one in trials:
        blocks[one.market, one.start].append(one)
    counts = np.array([len(block) for block in blocks.values()], float)
    true = np.array([sum(map(is_true, block)) for block in blocks.values()], float)
    drawn = np.random.default_rng(1).integers(0, len(blocks), (RESAMPLES, len(blocks)))
    shares = true[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(shares, (0.025, 0.975)).tolist()
    mean_said = float(np.mean([said(one) for one in trials]))
    return Share(len(trials), mean_said, float(true.sum() / counts.sum()), low, high)
