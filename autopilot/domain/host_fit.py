"""Whether the machine of an offer is what a job asks for. Pure: a market's search and the policy both ask it.

What a market does not say of a machine does not exclude it, but for its place: a job that names countries or regions
runs in no unknown one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.gpu_support import arch_of, cuda_of_driver, least_cuda_of
from autopilot.domain.host import NO_NEEDS, HostNeeds, driver_order
from autopilot.domain.money import ZERO, Number
from autopilot.domain.offer import Offer
from autopilot.domain.places import is_within


@dataclass(frozen=True, slots=True)
class HostLack:
    """What the machine has too little of. ``key``: a field of ``HostNeeds``, or ``gpu_cuda``."""

    key: str
    has: Number
    """None: the market does not say it."""
    wanted: Number


MEASURES: dict[str, Callable[[Offer], Decimal | None]] = {
    "cuda": lambda offer: cuda_of(offer),
    "cpus": lambda offer: offer.host.cpus,
    "ram_gb": lambda offer: offer.host.ram_gb,
    "shm_gb": lambda offer: offer.host.shm_gb,
    "disk_mb_per_s": lambda offer: offer.host.disk_mb_per_s,
    "reliability": lambda offer: offer.reliability,
    "download_mbps": lambda offer: offer.download_mbps or offer.host.least_download_mbps,
    "upload_mbps": lambda offer: offer.host.upload_mbps,
}
"""Field of ``HostNeeds`` of which there must be enough → what there is; None: it is unknown."""


def cuda_of(offer: Offer) -> Decimal | None:
    """The highest CUDA version of its driver, as the market says it or as it follows from the driver."""
    return offer.host.cuda or cuda_of_driver(offer.host.driver)


def host_lack(needs: HostNeeds, offer: Offer) -> HostLack | None:
    """The first thing that the machine is known to lack, or None."""
    return next(host_lacks(needs, offer), None)


def host_lacks(needs: HostNeeds, offer: Offer) -> Iterator[HostLack]:
    host, cuda = offer.host, cuda_of(offer)
    least = None if cuda is None else least_cuda_of(offer.gpu, host)
    if cuda is not None and least is not None and cuda < least:
        yield HostLack("gpu_cuda", cuda, least)
    if needs == NO_NEEDS:  # most jobs, of many offers each
        return
    for key, wanted in _list_asked(needs):
        has = MEASURES[key](offer)
        if has is not None and has < wanted:
            yield HostLack(key, has, wanted)
    if needs.driver and host.driver and driver_order(host.driver) < driver_order(needs.driver):
        yield HostLack("driver", host.driver, needs.driver)
    arch = arch_of(offer.gpu, host)
    if needs.arch is not None and arch is not None and arch is not needs.arch:
        yield HostLack("arch", arch, needs.arch)
    if needs.countries and host.country not in needs.countries:
        yield HostLack("country", host.country or None, " or ".join(needs.countries))
    if needs.regions and not any(is_within(host.country, host.region, each) for each in needs.regions):
        yield HostLack("region", host.region or host.country or None, " or ".join(needs.regions))


def _list_asked(needs: HostNeeds) -> list[tuple[str, Decimal]]:
    wishes = ((key, getattr(needs, key)) for key in MEASURES)
    return [(key, wanted) for key, wanted in wishes if wanted is not None]


def list_unstated(needs: HostNeeds, offer: Offer) -> tuple[str, ...]:
    """What the job asks for and the market does not say of the machine: it is not known to fit."""
    silent = [key for key, _ in _list_asked(needs) if MEASURES[key](offer) is None]
    if needs.driver and not offer.host.driver:
        silent.append("driver")
    if needs.arch is not None and arch_of(offer.gpu, offer.host) is None:
        silent.append("arch")
    return tuple(silent)


def missing_share(lack: HostLack) -> float:
    """How much is missing, as a share of what is wanted; infinite where it is no matter of degree."""
    if isinstance(lack.has, Decimal) and isinstance(lack.wanted, Decimal) and lack.wanted != ZERO:
        return float((lack.wanted - lack.has) / lack.wanted)
    if lack.key == "driver":
        has, wanted = driver_order(str(lack.has)), driver_order(str(lack.wanted))
        return max((wanted[0] - has[0]) / wanted[0], 0.0)
    return float("inf")
