"""How wrong an estimate of work may be, by the estimates of the same user's jobs that are done.

A rank of exchangeable values: of n jobs and one more, the last is above the k-th smallest of the n with a chance of
1 - k / (n + 1) (conformal prediction: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005). The
assumed error counts as ``ASSUMED_AS`` jobs, so that a few good ones do not yet prove much.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from autopilot.domain.job import Job, JobSpec, JobStatus

CHANCE = 0.9
"""Chance that the next job takes no longer than is reserved for it."""
LEAST_JOBS = 3
"""Fewer say nothing."""
MOST_JOBS = 50
"""The newest count."""
ASSUMED_AS = 2
LEAST_ERROR, MOST_ERROR = 0.02, 1.0


def learn_error(spec: JobSpec, past: Sequence[Job], assumed: float) -> tuple[float, int] | None:
    """The share of its estimate by which the work of ``spec`` may be longer, and how many jobs say so.

    ``past``: the user's own, newest first; ``assumed``: the share where nothing is known. Those of the same name count
    alone where they are enough. None: there are too few.
    """
    counted = [(job.spec.name, over) for job in past if (over := overrun_of(job)) is not None]
    of_name = [over for name, over in counted if name == spec.name]
    overruns = of_name if len(of_name) >= LEAST_JOBS else [over for _, over in counted]
    if len(overruns) < LEAST_JOBS:
        return None
    overruns = overruns[:MOST_JOBS]
    ranked = sorted([*overruns, *[assumed] * ASSUMED_AS])
    rank = min(ceil(CHANCE * (len(ranked) + 1)), len(ranked))
    return min(max(ranked[rank - 1], LEAST_ERROR), MOST_ERROR), len(overruns)


def overrun_of(job: Job) -> float | None:
    """By which share of its estimate its work was longer; None if that is not known.

    An estimate for one GPU says nothing of the hours on several kinds.
    """
    estimate = job.spec.work_estimate
    if job.status is not JobStatus.SUCCEEDED or not estimate or job.certifies or len(job.paces) > 1:
        return None
    if job.spec.work_on is not None and len(job.spec.gpus) > 1:
        return None
    return round(max(job.work_done / estimate - 1.0, 0.0), 3)
