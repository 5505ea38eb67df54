"""How likely a spot machine is lost: preemptions per hour, from the prior to what was seen, nearest evidence last.

Each level is a Gamma-Poisson estimate whose prior is the level above it (empirical Bayes; a run that was released or
still goes on is censored: it adds hours and no loss):

    h(level) = (weight × h(level above) + losses) / (weight + hours)         prior → GPU on a market → host → machine

The shape over age is the market's (piecewise constant hazards, shrunk to the flat one), scaled to the machine's level.
"""

from __future__ import annotations

from autopilot.domain.outlook import AGE_EDGES_H, ObservedTime, Outlook
from autopilot.domain.params import Params


def hazard(outlook: Outlook, provider: str, gpu: str, host: str, machine: str, params: Params) -> float:
    """Preemptions per hour of spot on this machine, at any age."""
    per_h = params.hazard.preemptions_per_h
    if not outlook.lives:
        return per_h
    for kind, name in (("gpu", gpu), ("host", host), ("machine", machine)):
        seen = outlook.lives.get((provider, kind, name))
        if seen is not None:
            per_h = _shrunk(per_h, seen.total, params.hazard.prior_h)
    return per_h


def losses_expected(
    outlook: Outlook, provider: str, gpu: str, per_h: float, age_h: float, hours: float, params: Params
) -> float:
    """Preemptions expected in the next ``hours`` on a machine of that age whose overall hazard is ``per_h``."""
    shape = age_shape(outlook, provider, gpu, params)
    if shape is None:
        return per_h * hours
    expected, start, left = 0.0, age_h, hours
    for factor, end in zip(shape, (*AGE_EDGES_H, float("inf")), strict=True):
        if start >= end:
            continue
        stay = min(left, end - start)
        expected += per_h * factor * stay
        start, left = start + stay, left - stay
        if left <= 0:
            break
    return expected


def age_shape(outlook: Outlook, provider: str, gpu: str, params: Params) -> tuple[float, ...] | None:
    """Hazard by age (bins of ``AGE_EDGES_H``) over the overall one; None if nothing was seen."""
    seen = outlook.lives.get((provider, "gpu", gpu))
    if seen is None or seen.total.hours <= 0:
        return None
    overall = _shrunk(params.hazard.preemptions_per_h, seen.total, params.hazard.prior_h)
    if overall <= 0:
        return None
    return tuple(_shrunk(overall, exposure, params.hazard.prior_h) / overall for exposure in seen.by_age)


def _shrunk(prior: float, seen: ObservedTime, weight_h: float) -> float:
    return (weight_h * prior + seen.losses) / (weight_h + seen.hours)
