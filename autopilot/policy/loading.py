"""How long a machine may take until the command runs on it.

Until its agent speaks that is the market's and the host's affair, and short: where the image has come up on the market
before, twice as long as it took there, and half as long again after each machine in a row that did not say why. One
that a pool has placed on a host that is known to fail is not waited for. From then on it is the user's: inputs,
``setup`` and the checkpoint take as long as filling the disk may take over a slow link, and some more.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import Capabilities
from autopilot.domain.params import Params
from autopilot.domain.start_faults import FAILED_BEFORE, count_last
from autopilot.pricing.host_odds import is_known_dud, patience_s


def loads_too_long(job: Job, lease: Lease, market: Market, now: datetime, params: Params) -> bool:
    """Of a machine whose agent has not spoken since it was rented, or woken.

    Where a market takes its time to start one, and bills nothing meanwhile, that counts apart.
    """
    able = market.able(lease.provider)
    free_start = timedelta(seconds=able.free_start_s if able is not None else 0)
    since, patience = _loading_since(lease), _patience(job, lease, market, params)
    if free_start and lease.observed.running_since is not None:
        return now - max(since, lease.observed.running_since) >= patience
    return now - since >= patience + free_start


def _patience(job: Job, lease: Lease, market: Market, params: Params) -> timedelta:
    """For a machine that has worked the whole time is waited: it is no dud, and may have woken while no daemon was
    there."""
    if lease.agent.boot > 0:
        return timedelta(seconds=params.loading.timeout_s)
    is_beside = job.main is not None and job.main.id != lease.id
    return timedelta(seconds=patience_s(market.hosts, job, lease.provider, params, is_beside=is_beside))


def is_left_at_once(job: Job, lease: Lease, market: Market, params: Params) -> bool:
    """Of a machine that its market has placed on a host that is known to fail. After so many in a row one is waited
    for, or it would go on for ever where there are no other hosts."""
    able = market.able(lease.provider)
    if able is None or not able.is_pooled or lease.agent.boot > 0:
        return False
    is_given_a_try = count_last(job.failed_starts, FAILED_BEFORE) >= params.loading.most_left_at_once
    return not is_given_a_try and is_known_dud(market.hosts, lease)


def cannot_boot_again(lease: Lease, able: Capabilities | None) -> bool:
    """Of a virtual machine that ran and was stopped before its agent ever spoke: what its first boot has not set up no
    later one does."""
    if able is None or not able.boots_vm or lease.agent.boot > 0:
        return False
    ran = [number for number, span in enumerate(lease.spans) if span.status is InstanceStatus.RUNNING]
    return bool(ran) and any(span.status is InstanceStatus.STOPPED for span in lease.spans[ran[0] :])


def prepares_too_long(lease: Lease, now: datetime, params: Params) -> bool:
    """Of a machine whose agent speaks and has not begun the command: at one stage of getting ready for it."""
    since = lease.agent.preparing_since
    fill_s = float(lease.disk_gb) * 8000 / params.loading.preparing_mbps
    return since is not None and now - since >= timedelta(seconds=params.loading.preparing_least_s + fill_s)


def _loading_since(lease: Lease) -> datetime:
    """Since when it loads: since it was rented, or since its last pause or loss of its host was over.

    While its agent has never spoken a pause only stops the clock: what loaded in vain before goes on in vain.
    """
    idle = (InstanceStatus.STOPPED, InstanceStatus.OFFLINE)
    pauses = [(span.started_at, span.ended_at) for span in lease.spans if span.status in idle and span.ended_at]
    rented_at = lease.acquired_at or lease.intended_at
    if lease.agent.boot == 0:
        return rented_at + sum((ends - max(begins, rented_at) for begins, ends in pauses), timedelta(0))
    return pauses[-1][1] if pauses else rented_at
