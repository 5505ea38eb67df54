"""Which offers will do for a job, and why the others will not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.domain import gpu_names
from autopilot.domain.certificate import MAY_BE_TRIED
from autopilot.domain.host_fit import host_lack, missing_share
from autopilot.domain.job import Job, JobSpec, Trust
from autopilot.domain.market import Market
from autopilot.domain.money import Number
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.policy.uncertified import price_least_start
from autopilot.pricing.speed import setup_time, work_left

UNCERTIFIED = ("not_certified", "one_uncertified", "over_uncertified")
"""Conditions that a certificate of the market would lift."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The first condition that an offer does not meet."""

    condition: str
    """A key of ``condition`` in docs/reference/api.md."""
    has: Number = None
    """What the offer has, and what the job wants, where the condition is a matter of degree."""
    wanted: Number = None
    missing: float | None = None
    """As a share of what is wanted, where the two numbers do not tell it."""

    @property
    def is_uncertified(self) -> bool:
        """All else would do."""
        return self.condition in UNCERTIFIED


def misfit(spec: JobSpec, offer: Offer) -> Unfit | None:
    """None when the offer fits the job file; else the first thing that does not."""
    counted = [gpu.name for gpu in spec.gpus if gpu.count == offer.num_gpus]
    if not any(gpu_names.fits(name, offer.gpu, offer.vram_gb) for name in counted):
        return Unfit("gpu")
    if offer.vram_gb < spec.min_vram_gb:
        return Unfit("vram_gb", offer.vram_gb, spec.min_vram_gb)
    if offer.disk_gb < spec.disk_gb:
        return Unfit("disk_gb", offer.disk_gb, spec.disk_gb)
    if spec.trust is not Trust.ANY and not offer.verified:
        return Unfit("verified")
    if (spec.trust is Trust.SECURE or spec.host.datacenter) and not offer.datacenter:
        return Unfit("datacenter")
    lack = host_lack(spec.host, offer)
    return None if lack is None else Unfit(lack.key, lack.has, lack.wanted, missing_share(lack))


def why_not(spec: JobSpec, offer: Offer) -> str | None:
    """The same in words, for a list of offers."""
    unfit = misfit(spec, offer)
    if unfit is None:
        return None
    if unfit.condition in _IN_PLACE and unfit.has is None:
        return "place unknown"
    return _WORDS[unfit.condition].format(unfit.has)


_IN_PLACE = ("country", "region")
_WORDS = {
    "gpu": "another GPU",
    "vram_gb": "{} GB of VRAM",
    "disk_gb": "{} GB of disk",
    "verified": "host not verified",
    "datacenter": "not a datacenter",
    "gpu_cuda": "driver too old for its GPU: CUDA {}",
    "cuda": "CUDA {}",
    "driver": "driver {}",
    "arch": "{} processor",
    "cpus": "{:.4g} CPUs",
    "ram_gb": "{:.4g} GB of RAM",
    "shm_gb": "{:.4g} GB of /dev/shm",
    "disk_mb_per_s": "disk of {:.0f} MB/s",
    "reliability": "reliability {}",
    "download_mbps": "{:.0f} Mbps down",
    "upload_mbps": "{:.0f} Mbps up",
    "country": "in {}",
    "region": "in {}",
}
"""What each condition of the job file says of an offer that does not meet it."""
OF_JOB_FILE = frozenset(_WORDS) - {"gpu"}
"""Conditions that remove offers of the GPUs that were asked for."""


def eligible(job: Job, market: Market, now: datetime, params: Params) -> tuple[Offer, ...]:
    """Offers that fit, on a market that is known, on no machine to be avoided, and that last long enough.

    A machine that the job holds, or is giving back, is not rented once more; of a pool there are others (``Pricing``
    leaves out what would be the same again).
    """
    return tuple(offer for offer, unfit in judge(job, market, now, params) if unfit is None)


def judge(job: Job, market: Market, now: datetime, params: Params) -> Iterator[tuple[Offer, Unfit | None]]:
    """Each offer, and None or why it is not eligible."""
    check = Eligibility(job, market, now, params)
    return ((offer, check.unmet(offer)) for offer in market.offers)


class Eligibility:
    """Whether offers may be rented for one job now; what is the same for all of them is worked out once."""

    def __init__(self, job: Job, market: Market, now: datetime, params: Params) -> None:
        pools = {name for name, view in market.providers.items() if view.capabilities.is_pooled}
        self._held = {(lease.provider, lease.machine_id) for lease in job.leases if lease.provider not in pools}
        self._machines_on = {lease.provider for lease in job.leases if not lease.is_over}
        self._needed: dict[tuple[str, int], timedelta] = {}
        self._job = job
        self._market = market
        self._now = now
        self._params = params

    def holds(self, offer: Offer) -> bool:
        return self.unmet(offer) is None

    def unmet(self, offer: Offer) -> Unfit | None:
        """The first condition that the offer does not meet."""
        job, market = self._job, self._market
        machine = offer.provider, offer.machine_id
        if not market.knows(offer.provider):
            return Unfit("market_unknown")
        if job.certifies not in ("", offer.provider):
            return Unfit("other_market")
        if machine in market.avoid:
            return Unfit("avoided")
        if machine in self._held:
            return Unfit("held")
        return misfit(job.spec, offer) or self._ends_too_soon(offer) or self._check_certificate(offer)

    def _check_certificate(self, offer: Offer) -> Unfit | None:
        """Checked last: so this answer means that a certificate would help."""
        lack = self._market.lack_for(self._job, offer.provider)
        room = self._market.room_on(self._job, offer.provider)
        if lack is None:
            return None
        if room is None or lack not in MAY_BE_TRIED:
            return Unfit("not_certified", lack)
        if room.is_taken:
            return Unfit("one_uncertified")
        if offer.provider in self._machines_on:
            return None  # what its own machine there has committed is free once that is gone
        needed = price_least_start(self._job, offer, self._market, self._params)
        return Unfit("over_uncertified", room.left, needed) if needed > room.left else None

    def _ends_too_soon(self, offer: Offer) -> Unfit | None:
        if offer.ends_at is None:
            return None
        needed = self._work_needed(offer.gpu, offer.num_gpus) + setup_time(self._job, offer, self._params)
        lasts = offer.ends_at - self._now
        if lasts >= needed:
            return None
        return Unfit("lasts_s", round(lasts.total_seconds()), round(needed.total_seconds()))

    def _work_needed(self, gpu: str, count: int) -> timedelta:
        """The most that it may yet be, on those GPUs."""
        gpus = gpu, count
        if gpus not in self._needed:
            left, deadline = work_left(self._job, gpu, count), self._params.deadline
            unknown = timedelta(seconds=deadline.horizon_s)
            self._needed[gpus] = unknown if left is None else left * (1 + deadline.estimate_error)
        return self._needed[gpus]
