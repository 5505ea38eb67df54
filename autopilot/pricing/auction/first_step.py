"""How long it takes from a decision to the first new step on another machine, as a high percentile.

Times of tries that came to work are taken as log-normal: ln y ~ N(μ, σ²). μ is shrunk to what is expected of a start
(n0 starts' worth), and so is σ² to the spread that machines are known for:

    μ = (n0 ln m0 + Σ ln y) / (n0 + n)        σ² = (n0 σ0² + Σ (ln y − μ)²) / (n0 + n)
    L = e^(μ + z σ) + (k − 1) · give-up       k: the least with (share of tries that fail)^k ≤ 1 − q

z is the normal quantile of q. A try that fails costs the time in which that is seen, before the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from statistics import NormalDist

QUANTILE = 0.95
PRIOR_STARTS = 4.0
"""What is expected of a start weighs as much as so many that were seen."""
PRIOR_SPREAD = 0.6
"""σ0. Source: assumed; hosts differ in line, disk and what they have cached."""
PRIOR_FAILED, PRIOR_TRIES = 0.02, 10.0
"""The share of tries that fail, before any was seen, and as how many tries it counts. Source: assumed."""
MOST_TRIES = 5
"""Tries that are counted at the most."""


@dataclass(frozen=True, slots=True)
class Starts:
    """What was seen of starts on one market."""

    took_s: Sequence[float] = ()
    failed: int = 0


NONE_SEEN = Starts()


def first_step_s(expected_s: float, seen: Starts = NONE_SEEN, give_up_s: float = 900.0) -> float:
    """Seconds, as the percentile. ``expected_s``: of a start as the job's own numbers have it, above 0."""
    logs = [log(max(took, 1.0)) for took in seen.took_s]
    weight = PRIOR_STARTS + len(logs)
    mean = (PRIOR_STARTS * (log(expected_s) - PRIOR_SPREAD**2 / 2) + sum(logs)) / weight
    variance = (PRIOR_STARTS * PRIOR_SPREAD**2 + sum((each - mean) ** 2 for each in logs)) / weight
    one_s = exp(mean + NormalDist().inv_cdf(QUANTILE) * sqrt(variance))
    failed = (PRIOR_TRIES * PRIOR_FAILED + seen.failed) / (PRIOR_TRIES + seen.failed + len(logs))
    tries = min(max(ceil(log(1 - QUANTILE) / log(failed)), 1), MOST_TRIES) if 0 < failed < 1 else MOST_TRIES
    return one_s + (tries - 1) * give_up_s
