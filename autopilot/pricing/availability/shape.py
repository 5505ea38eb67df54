"""The shape of a live job's table of costs to go, rounded so that one table serves many ticks and many jobs."""

from __future__ import annotations

from datetime import datetime
from math import ceil

from autopilot.domain.job import Job
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Outlook, PhaseModel, Shape
from autopilot.domain.params import Params
from autopilot.pricing.hazard import hazard
from autopilot.pricing.pressure import measure_pressure
from autopilot.pricing.rule.cost import Candidate, best

HOUR_S = 3600.0
SPAN_STEP_S = 4 * HOUR_S
"""Time left and slack are rounded up to this: they only say how far a table must reach."""
RATIO_STEP = 0.05
HAZARD_STEP_PER_H = 0.1
RESTART_STEP_S = 120.0
LONGEST_S = 30 * 24 * HOUR_S
"""A deadline further away than this does not press."""


def shape_of(
    job: Job, candidates: list[Candidate], outlook: Outlook, now: datetime, phases: PhaseModel, params: Params
) -> Shape | None:
    """From the best offers of each kind; None without a deadline or an estimate, or when a kind is not to be had.

    None as well for a job that would rather be late than fall back: what waiting costs it no table says. And where
    on-demand capacity costs nothing: there is nothing to save by waiting.
    """
    pressure = measure_pressure(job, now, params)
    if not job.spec.fall_back or pressure.slack is None or pressure.is_past or pressure.left_s > LONGEST_S:
        return None
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    if spot is None or on_demand is None or not _burn(on_demand, job):
        return None
    offer = spot.offer
    losses = hazard(outlook, offer.provider, offer.gpu, offer.host_id, offer.machine_id, params)
    slack_s = max(pressure.left_s - pressure.work_s, 0.0)
    restart_s = max(spot.setup, on_demand.setup).total_seconds()
    ratio = _burn(spot, job) / _burn(on_demand, job)
    ratio_steps = max(round(ratio / RATIO_STEP), 1)
    return Shape(
        phases,
        longest_s=_up(pressure.left_s, SPAN_STEP_S),
        most_slack_s=_up(slack_s, SPAN_STEP_S),
        restart_s=_up(restart_s, RESTART_STEP_S),
        spot_ratio=min(ratio_steps * RATIO_STEP, 1.0),
        hazard_per_h=round(losses / HAZARD_STEP_PER_H) * HAZARD_STEP_PER_H,
        lost_s=job.spec.checkpoint_interval.total_seconds() / 2,
    )


def still_serves(shape: Shape, wanted: Shape) -> bool:
    """Whether a table made for ``shape`` will do where ``wanted`` would be made: prices differ by a step or so."""
    return (
        shape.phases is wanted.phases
        and shape.longest_s >= wanted.longest_s
        and shape.most_slack_s >= wanted.most_slack_s
        and shape.lost_s == wanted.lost_s
        and abs(shape.spot_ratio - wanted.spot_ratio) <= 1.5 * RATIO_STEP
        and abs(shape.hazard_per_h - wanted.hazard_per_h) <= 1.5 * HAZARD_STEP_PER_H
        and abs(shape.restart_s - wanted.restart_s) <= 1.5 * RESTART_STEP_S
    )


def _burn(choice: Candidate, job: Job) -> float:
    """$/h that it is expected to cost, disk included."""
    return float(choice.expected_price + choice.offer.storage_rate(job.spec.disk_gb))


def _up(value: float, step: float) -> float:
    return max(ceil(value / step), 1) * step
