"""How long it takes from a decision to the first new step on another machine, as a high percentile.

Times of tries that came to work are taken as log-normal: ln y ~ N(μ, σ²). μ is shrunk to what is expected of a start
(n0 starts' worth), and so is σ² to the spread that machines are known for:

    μ = (n0 ln m0 + Σ ln y) / (n0 + n)        σ² = (n0 σ0² + Σ (ln y − μ)²) / (n0 + n)
    L = e^(μ + z σ) + (k − 1) · give-up       k: the least with (share of tries that fail)^k ≤ 1 − q

z is the normal quantile of q. A try that fails costs the time in which that is seen, before the next begins.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, exp, log, sqrt
from statistics import NormalDist

from autopilot.domain.hosts import LaunchOdds

QUANTILE = 0.95
PRIOR_STARTS = 4.0
"""What is expected of a start weighs as much as so many that were seen."""
PRIOR_SPREAD = 0.6
"""σ0. Source: assumed; hosts differ in line, disk and what they have cached."""
PRIOR_FAILED, PRIOR_TRIES = 0.02, 10.0
"""The share of tries that fail, before any was seen, and as how many tries it counts. Source: assumed."""
MOST_TRIES = 5
"""Tries that are counted at the most."""


NO_LAUNCHES = LaunchOdds()


@lru_cache(maxsize=64)
def first_step_s(
    expected_s: float, took_s: tuple[float, ...] = (), odds: LaunchOdds = NO_LAUNCHES, give_up_s: float = 900.0
) -> float:
    """Seconds, as the percentile. ``expected_s``: of a start as the job's own numbers have it, above 0. ``took_s``: of
    starts that were seen; ``odds``: of launches on that market; ``give_up_s``: what one that fails takes."""
    logs = [log(max(took, 1.0)) for took in took_s]
    weight = PRIOR_STARTS + len(logs)
    mean = (PRIOR_STARTS * (log(expected_s) - PRIOR_SPREAD**2 / 2) + sum(logs)) / weight
    variance = (PRIOR_STARTS * PRIOR_SPREAD**2 + sum((each - mean) ** 2 for each in logs)) / weight
    one_s = exp(mean + NormalDist().inv_cdf(QUANTILE) * sqrt(variance))
    failed = odds.shrunk(PRIOR_FAILED, PRIOR_TRIES)
    tries = min(max(ceil(log(1 - QUANTILE) / log(failed)), 1), MOST_TRIES) if 0 < failed < 1 else MOST_TRIES
    return one_s + (tries - 1) * give_up_s
