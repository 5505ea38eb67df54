"""What was seen of a cluster → the domain's values. Pure.

A partition is offered as a kind of machine, as often as the settings allow; a job is a machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.host import HostFacts
from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.providers.slurm import states
from autopilot.providers.slurm.config import PartitionSettings
from autopilot.providers.slurm.states import Phase
from autopilot.providers.slurm.wire import SeenEnd, SeenJob, SeenLease, SeenPartition, read_span

PROVIDER = "slurm"
SHM_SHARE = 2
"""Linux gives ``/dev/shm`` half of the memory."""
_ENDED = {
    "limit": (None, "its time limit is reached"),
    "preempt": (Stopper.BIDDER, "the job was preempted"),
}
"""Why a batch script has ended by itself."""
_REQUEUED = {
    "preempt": (Stopper.BIDDER, "preempted and requeued"),
    "killed": (Stopper.BIDDER, "requeued by the cluster"),
}
_AFTER_A_FAULT = (None, "requeued, as after the failure of a node")


@dataclass(frozen=True, slots=True)
class SeenStatus:
    """What a job is as a machine."""

    status: InstanceStatus
    message: str
    stopper: Stopper | None = None
    intended_running: bool = True
    start_failed: bool = False


def limit_of(settings: PartitionSettings, seen: SeenPartition) -> int | None:
    """Seconds of the longest run of a job; None: any."""
    limits = [each for each in (read_span(settings.time), seen.limit_s) if each is not None]
    return min(limits, default=None)


def gpus_on_a_node(settings: PartitionSettings, seen: SeenPartition) -> int:
    return seen.gres.get(settings.gres, 0)


def offers(
    partitions: Mapping[str, PartitionSettings],
    seen: Mapping[str, SeenPartition],
    held: Mapping[str, int],
    taken_back: Collection[str],
    disk_gb: Decimal,
    query: OfferQuery,
    now: datetime,
) -> Iterator[Offer]:
    """Of each partition that takes jobs, for each number of GPUs that is asked for. ``held``: jobs of ours there.
    ``taken_back``: partitions where a job of ours waits for its next turn, which a new one would not get before it."""
    for name, settings in sorted(partitions.items()):
        found = seen.get(name)
        if found is None or not found.is_up or disk_gb < query.disk_gb:
            continue
        if held.get(name, 0) >= settings.jobs or name in taken_back:
            continue
        for gpu, count in query.gpus:
            fits = gpu_names.is_called(settings.gpu, gpu) and settings.vram_gb >= query.min_vram_gb
            if fits and count <= gpus_on_a_node(settings, found):
                yield _offer(name, settings, found, gpu, count, disk_gb, now)


def _offer(
    name: str, settings: PartitionSettings, seen: SeenPartition, gpu: str, count: int, disk_gb: Decimal, now: datetime
) -> Offer:
    limit_s = limit_of(settings, seen)
    memory_gb = None if settings.memory_gb is None else Decimal(settings.memory_gb)
    return Offer(
        provider=PROVIDER,
        offer_id=f"{name}/{count}",
        machine_id=name,
        host_id=name,
        gpu=gpu,
        num_gpus=count,
        vram_gb=settings.vram_gb,
        floor=None,
        on_demand_price=settings.price,
        storage_price=ZERO,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=Decimal(1),
        verified=True,
        datacenter=True,
        disk_gb=disk_gb,
        location=f"{name}{', may be preempted' if seen.is_preemptible else ''}{'' if seen.idle else ', no idle node'}",
        ends_at=None if limit_s is None else now + timedelta(seconds=limit_s),
        host=HostFacts(
            cpus=None if settings.cpus is None else Decimal(settings.cpus),
            ram_gb=memory_gb,
            shm_gb=None if memory_gb is None else memory_gb / SHM_SHARE,
        ),
    )


def parts_of_offer(identifier: str) -> tuple[str, int]:
    """Partition and number of GPUs. Raises ``ValueError``."""
    name, sign, count = identifier.rpartition("/")
    if not sign or not (count.isascii() and count.isdigit() and 0 < int(count[:4]) < 100):
        raise ValueError(f"not an offer of a partition: {identifier!r}")
    return name, int(count)


def status_of_job(job: SeenJob, lease: SeenLease | None) -> SeenStatus:
    """Of a job that is not over. ``lease`` None: its directory is gone, and so it is on its way out."""
    phase = states.phase_of(job.state)
    if phase is Phase.WAITS:
        return _waiting(job, lease)
    if phase is Phase.HALTED:
        return SeenStatus(InstanceStatus.STOPPED, "the job is suspended", Stopper.BIDDER)
    if job.state in states.STARTING:
        return SeenStatus(InstanceStatus.PROVISIONING, "its nodes are being prepared")
    words = f"on {job.nodes}" if job.nodes else ""
    if phase is Phase.ENDS:
        words = "its processes are being ended"
    return SeenStatus(InstanceStatus.RUNNING, words, intended_running=lease is not None)


def _waiting(job: SeenJob, lease: SeenLease | None) -> SeenStatus:
    if states.is_held_by_user(job.reason):
        return SeenStatus(InstanceStatus.STOPPED, "the job is held", Stopper.USER, intended_running=False)
    if states.is_held_by_site(job.reason):
        return SeenStatus(InstanceStatus.STOPPED, f"the job is held by the site ({job.reason})", Stopper.HOST)
    words = states.tell_wait(job.reason)
    if job.starts_at is not None:
        words += f"; expected to start at {job.starts_at:%Y-%m-%d %H:%M} UTC"
    if lease is None or not lease.begun:
        return SeenStatus(InstanceStatus.PROVISIONING, f"waits in the queue: {words}")
    stopper, cause = _REQUEUED.get(lease.notice, _AFTER_A_FAULT)
    return SeenStatus(InstanceStatus.STOPPED, f"{cause}: {words}", stopper)


def status_of_end(job: SeenJob | None, lease: SeenLease, end: SeenEnd | None) -> SeenStatus:
    """Of a job that is over. ``end``: what the accounting says, which is asked where there is one."""
    if lease.ended in _ENDED and (job is None or job.state == "COMPLETED"):
        stopper, words = _ENDED[lease.ended]
    elif end is not None:
        stopper, words = states.tell_end(end.state, end.cancelled_by)
    elif job is not None:
        stopper, words = states.tell_end(job.state)
    else:
        stopper, words = None, "the job is over, and the cluster does not say why"
    return SeenStatus(
        InstanceStatus.STOPPED,
        words,
        stopper,
        intended_running=stopper is not Stopper.USER,
        start_failed=not lease.begun,
    )


def instance(
    job_id: str,
    job: SeenJob | None,
    lease: SeenLease | None,
    shown: SeenStatus,
    partitions: Mapping[str, PartitionSettings],
) -> Instance:
    """``job`` or ``lease`` is there."""
    partition = lease.partition if lease is not None else job.partition if job is not None else ""
    settings = partitions.get(partition)
    price = lease.price if lease is not None else settings.price if settings is not None else ZERO
    named = lease or job
    assert named is not None
    is_waiting = shown.status is InstanceStatus.PROVISIONING
    return Instance(
        provider=PROVIDER,
        instance_id=job_id,
        label=named.label,
        machine_id=partition,
        host_id=partition,
        capacity_type=CapacityType.ON_DEMAND,
        status=shown.status,
        intended_running=shown.intended_running,
        bid=price,
        storage_rate=ZERO,
        gpu=lease.gpu if lease is not None else settings.gpu if settings is not None else "",
        num_gpus=lease.num_gpus if lease is not None else 1,
        ends_at=None if job is None or is_waiting or states.phase_of(job.state) is Phase.WAITS else job.ends_at,
        message=shown.message,
        start_failed=shown.start_failed,
        # What took it was no higher bid.
        price_to_win=price if shown.stopper is Stopper.BIDDER else None,
        stopped_by=shown.stopper,
    )
