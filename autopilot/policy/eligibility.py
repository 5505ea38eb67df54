"""Which offers will do for a job, and, for people, why the others will not."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.job import Job, JobSpec, Trust
from autopilot.domain.market import Market
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.pricing.speed import setup_time, work_left


def why_not(spec: JobSpec, offer: Offer) -> str | None:
    """None when the offer fits the job file; else the first thing that does not."""
    wanted = {(gpu.name.casefold(), gpu.count) for gpu in spec.gpus}
    if (offer.gpu.casefold(), offer.num_gpus) not in wanted:
        return "another GPU"
    if offer.vram_gb < spec.min_vram_gb:
        return f"{offer.vram_gb} GB of VRAM"
    if offer.disk_gb < spec.disk_gb:
        return f"{offer.disk_gb} GB of disk"
    if spec.trust is not Trust.ANY and not offer.verified:
        return "host not verified"
    if spec.trust is Trust.SECURE and not offer.datacenter:
        return "not a datacenter"
    return None


def eligible(job: Job, market: Market, now: datetime, params: Params) -> tuple[Offer, ...]:
    """Offers that fit, on a market that is known, on no machine to be avoided, and that last long enough.

    A machine that the job holds, or is giving back, is not rented once more; of a pool there are others (``candidates``
    leaves out what would be the same again).
    """
    pools = {name for name, view in market.providers.items() if view.capabilities.is_pooled}
    held = {(lease.provider, lease.machine_id) for lease in job.leases if lease.provider not in pools}
    return tuple(
        offer
        for offer in market.offers
        if market.knows(offer.provider)
        and (offer.provider, offer.machine_id) not in market.avoid
        and (offer.provider, offer.machine_id) not in held
        and why_not(job.spec, offer) is None
        and (offer.ends_at is None or offer.ends_at >= now + _time_needed(job, offer, params))
    )


def _time_needed(job: Job, offer: Offer, params: Params) -> timedelta:
    left = work_left(job, offer.gpu, offer.num_gpus)
    longer = 1 + params.deadline.estimate_error
    work = timedelta(seconds=params.deadline.horizon_s) if left is None else left * longer
    return work + setup_time(job, offer, params)
