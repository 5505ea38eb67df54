"""Whether a machine is left for what its check on arrival has found."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from autopilot.domain.arrival import ArrivalFinding, Rented, find_lacks, find_warnings
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease

MOST_LEFT = 3
"""For one finding so many machines in a row are left. Then it is more likely the check's or the job's than the hosts',
and the job continues with what there is."""
MOST_LEFT_BY_TASK = 1
"""A task of an array is one of many that meet the same."""
MOST_FINDINGS = 6
"""For all findings together."""
SOON = timedelta(minutes=5)
"""A machine that has worked for longer is not left for them."""


def rented_as(job: Job, lease: Lease) -> Rented:
    size = job.checkpoint.size_bytes if job.checkpoint else None
    return Rented(lease.num_gpus, lease.disk_gb, lease.ram_gb, size)


def lacks_of(job: Job, lease: Lease) -> tuple[ArrivalFinding, ...]:
    arrival = lease.agent.readings.arrival if lease.agent.readings else None
    return () if arrival is None else find_lacks(arrival, rented_as(job, lease))


def warnings_of(job: Job, lease: Lease) -> tuple[ArrivalFinding, ...]:
    arrival = lease.agent.readings.arrival if lease.agent.readings else None
    return () if arrival is None else find_warnings(arrival, rented_as(job, lease))


def unbearable(job: Job, lease: Lease) -> tuple[ArrivalFinding, ...]:
    """What of it the machine may still be left for, as many as were left before."""
    if len(job.left_for) >= MOST_FINDINGS:
        return ()
    most = MOST_LEFT if job.array_id is None else MOST_LEFT_BY_TASK
    return tuple(lack for lack in lacks_of(job, lease) if job.left_for.count(lack.kind) < most)


def is_unfit(job: Job, lease: Lease, now: datetime) -> bool:
    since = lease.agent.working_since
    return (since is None or now - since < SOON) and not lease.is_shared and bool(unbearable(job, lease))


def count_left(left_for: Iterable[str], lacks: Iterable[ArrivalFinding]) -> tuple[str, ...]:
    """With the findings of one machine more that is left for them."""
    return (*left_for, *(lack.kind for lack in lacks))


def forget_met(left_for: Iterable[str], lacks: Iterable[ArrivalFinding]) -> tuple[str, ...]:
    """Without those that a newer machine does not show: what is counted are machines in a row."""
    still = {lack.kind for lack in lacks}
    return tuple(kind for kind in left_for if kind in still)
