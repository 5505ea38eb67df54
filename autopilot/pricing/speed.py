"""How long a job still takes on given GPUs, and how long until a new machine works at all.

In order of trust: the pace at which this very job was seen to run on those GPUs; that pace on others, scaled by the
table of relative speeds; the user's estimate, scaled from the GPU it was made for; the estimate unscaled.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease
from autopilot.domain.offer import Offer
from autopilot.domain.pace import slow_share
from autopilot.domain.params import Params
from autopilot.pricing.gpu_speeds import relative_speed
from autopilot.pricing.traffic import MEGABITS_PER_GB, home_s, received_gb

SLOWEST_MBPS = Decimal(20)
"""A link that the market states as slower is assumed to be this fast."""
USUAL_MBPS = Decimal(500)
"""Assumed for machines whose market does not state it."""


def work_left(job: Job, gpu: str, count: int) -> timedelta | None:
    """Time at work that remains on ``count`` × ``gpu``; None when nothing is known of the job's length."""
    paces = {key: pace for key, pace in job.paces if isinstance(pace, Decimal) and pace > 0}
    # Work done is counted in hours: with several paces, it is unknown at which of them.
    if paces and (job.progress is not None or len(paces) == 1):
        seen = paces.get(pace_key(gpu, count))
        if seen is not None:
            return _at(seen, Decimal(1), job)
        for key, pace in paces.items():
            name, _, number = key.rpartition(":")
            factor = relative_speed(gpu, count, name, int(number))
            if factor is not None:
                return _at(pace, factor, job)
    left = job.remaining_work
    if left is None or job.spec.work_on is None:
        return left
    same = (choice.count for choice in job.spec.gpus if gpu_names.is_called(choice.name, job.spec.work_on))
    reference = next(same, 1)
    factor = relative_speed(gpu, count, job.spec.work_on, reference)
    return left if factor is None else left / float(factor)


def work_left_on(job: Job, lease: Lease) -> timedelta | None:
    """The same on one machine, which may be slow."""
    left, share = work_left(job, lease.gpu, lease.num_gpus), slow_share(job, lease)
    return left if left is None or not share else left / float(share)


def work_left_anywhere(job: Job) -> timedelta | None:
    """The same while it has no machine: on GPUs like those that it was seen on last, if it was."""
    if not job.paces:
        return job.remaining_work
    name, _, count = job.paces[-1][0].rpartition(":")
    return work_left(job, name, int(count))


def _at(pace: Decimal, factor: Decimal, job: Job) -> timedelta:
    """``pace``: the share of the job done in an hour on the GPUs that it was seen on; the others do ``factor`` of it.

    Between runs no progress is reported: what was saved counts.
    """
    if job.progress is not None:
        return timedelta(hours=float((1 - min(job.progress, Decimal(1))) / pace / factor))
    return max(timedelta(hours=float(1 / pace)) - job.work_done, timedelta(0)) / float(factor)


def setup_time(job: Job, offer: Offer, params: Params) -> timedelta:
    """From the create to the command running: boot, then image, inputs and newest checkpoint over the host's link, and
    what comes over the daemon's own line."""
    mbps = max(offer.download_mbps, SLOWEST_MBPS) if offer.download_mbps else USUAL_MBPS
    seconds = received_gb(job, params) * MEGABITS_PER_GB / mbps
    return timedelta(seconds=params.timing.boot_s + float(seconds) + home_s(job, params))
