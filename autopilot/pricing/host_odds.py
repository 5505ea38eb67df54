"""What a machine's record adds to the cost of finishing there: launches that come to nothing, a slower pace.

The chance p that a launch comes to nothing is shrunk from the market to the host to the machine (empirical Bayes, as in
``hazard``). What a silent machine costs is the time for which it is waited for: s_k, when k were silent before it in
this job (``Loading.patience_s``). A machine that stays the best choice is tried until it comes up, so that

    dollars = $/h × Σ p^(k+1) × s_k        launches until the first that comes up (geometric distribution)
    minutes = p × s_0                      of the next launch; the one after it may be on another machine

A machine that says why it fails is left sooner, so both are the most that a dud costs. A record only adds: what has
none costs what it did.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.hosts import HostRecord, KnownHosts, LaunchOdds
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.offer import Offer
from autopilot.domain.params import MOST_GROWN, Params

MARKET_WEIGHT = 20.0
"""Before a market's own launches count, so many are assumed to have come up."""
HOST_WEIGHT = 1.0
"""Machines of one host share its faults more often than not."""
MACHINE_WEIGHT = 0.05
"""A machine that has not come up will not the next time either, mostly: driver, disk and network are the same."""
POOL_WEIGHT = 5.0
"""Of a pool the next machine is another one."""
LEFT_AT_ONCE = 0.5
"""Chance that a launch comes to nothing from which on its machine is not waited for."""
LOADS_BESIDE = 3
"""Machines on which an image must have come up before one beside a machine that works is left early."""


class Burden(NamedTuple):
    """What to expect of one machine beyond what its offer says."""

    lost: Decimal
    """Dollars for launches that come to nothing."""
    waited: timedelta
    """For the next launch, in case that it does."""
    pace: float
    """0..1, of what such GPUs do elsewhere."""
    load: timedelta
    """It was seen to take so long until its agent spoke."""


UNBURDENED = Burden(ZERO, timedelta(0), 1.0, timedelta(0))


def weigh_host(
    hosts: KnownHosts, offer: Offer, job: Job, hourly: Decimal, params: Params, *, is_pooled: bool
) -> Burden:
    """``hourly``: $/h of the machine, disk included."""
    market = hosts.by_market.get(offer.provider)
    if market is None:
        return UNBURDENED
    record = hosts.find(offer.provider, offer.machine_id)
    own = _odds(record)
    if is_pooled:
        own += hosts.by_host.get((offer.provider, offer.machine_id), LaunchOdds())
    others = (
        hosts.by_host.get((offer.provider, offer.host_id), LaunchOdds()).without(own) if offer.host_id else LaunchOdds()
    )
    share = others.shrunk(market.shrunk(0.0, MARKET_WEIGHT), HOST_WEIGHT)
    share = own.shrunk(share, POOL_WEIGHT if is_pooled else MACHINE_WEIGHT)
    waits_s = _waits_s(hosts, offer.provider, job, params)
    lost = accrue(hourly, timedelta(seconds=_lost_s(share, waits_s)))
    waited = timedelta(seconds=share * waits_s[0])
    if record is None:
        return Burden(lost, waited, 1.0, timedelta(0))
    load = timedelta(seconds=record.load_s(job.spec.image) or 0.0)
    return Burden(lost, waited, record.pace if record.pace is not None else 1.0, load)


def is_known_dud(hosts: KnownHosts, lease: Lease) -> bool:
    """Of a machine of a pool, whose market has named its host since: whether it is likelier than not to come to nothing
    there, or the user has blocked that host."""
    record = hosts.find(lease.provider, lease.host_id) if lease.host_id else None
    if record is None or record.blocked_at is not None:
        return record is not None
    return _odds(record).shrunk(0.0, MACHINE_WEIGHT) >= LEFT_AT_ONCE


def patience_s(
    hosts: KnownHosts, job: Job, provider: str, params: Params, *, is_beside: bool = False, more: int = 0
) -> float:
    """Seconds for which the job's next silent machine is waited for on that market.

    ``is_beside``: of a machine beside one that works. Starts in vain are not counted there, so that nothing grows with
    them: it takes more machines to know how long the image takes where its layers are not there yet. ``more``: silent
    machines after those of the job. Each machine but the first on which the image has come up speaks against one of
    them: that they are silent says less of the image, and more of their hosts.
    """
    loads = hosts.loads.get((provider, job.spec.image), ())
    longest_s = loads[-1] if len(loads) >= (LOADS_BESIDE if is_beside else 1) else None
    return params.loading.patience_s(longest_s, max(job.silent_starts + more - max(len(loads) - 1, 0), 0))


def _odds(record: HostRecord | None) -> LaunchOdds:
    return LaunchOdds() if record is None else LaunchOdds(record.launches, record.failed)


def _waits_s(hosts: KnownHosts, provider: str, job: Job, params: Params) -> list[float]:
    """How long the next silent machine is waited for, the one after it, and so on; after the last it grows no more."""
    if job.main is not None:
        return [patience_s(hosts, job, provider, params, is_beside=True)]
    return [patience_s(hosts, job, provider, params, more=number) for number in range(MOST_GROWN + 1)]


def _lost_s(share: float, waits_s: list[float]) -> float:
    share = min(share, 1 - 1e-6)
    *growing, last = waits_s
    seconds = sum(wait_s * share ** (number + 1) for number, wait_s in enumerate(growing))
    return seconds + last * share ** len(waits_s) / (1 - share)
