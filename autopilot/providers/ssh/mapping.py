"""What was seen of a machine of one's own → the domain's values. Pure.

A machine has as many *slots* as jobs at once, each with an equal share of its GPUs: a slot is what is offered as a
machine, and the machine is its host. A slot may be rented with fewer GPUs than its share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.host import HostFacts
from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.providers.ssh.config import MachineSettings
from autopilot.providers.ssh.shipped.program import USED_MIB
from autopilot.providers.ssh.wire import SeenGpu, SeenLease, SeenMachine

PROVIDER = "ssh"
SHM_SHARE = 2
"""Linux gives ``/dev/shm`` half of the memory."""
_OFFER_ID = re.compile(r"([a-z0-9-]{1,32})/(\d{1,2})/(\d{1,2})", re.ASCII)
_STATES = {"running": InstanceStatus.RUNNING, "starting": InstanceStatus.PROVISIONING}
_ENDS = {
    "stopped": (Stopper.USER, "stopped by autopilot"),
    "taken": (Stopper.BIDDER, "its owner has taken the machine back"),
    "hours": (None, "the hours of this machine are over"),
    "leaving": (Stopper.USER, "it is being given back"),
}


@dataclass(frozen=True, slots=True)
class Kit:
    """GPUs of one model, by their numbers on the machine, and what is known of them."""

    gpu: str
    devices: tuple[int, ...]
    vram_gb: Decimal
    used: frozenset[int] = frozenset()
    """Those with more in their memory than an idle one has."""
    driver: str = ""
    compute_cap: Decimal | None = None


def kit_of(settings: MachineSettings, seen: SeenMachine) -> Kit | None:
    """None: the machine has no GPU that can be told. Of several models the most frequent one counts."""
    rows = seen.gpus or ()
    used = frozenset(each.index for each in rows if each.used_mib > USED_MIB)
    if settings.stated is not None and settings.vram_gb is not None:
        gpu, count = settings.stated
        return Kit(gpu, tuple(range(count)), settings.vram_gb, used)
    if not rows:
        return None
    name = max(sorted({each.name for each in rows}), key=lambda name: sum(each.name == name for each in rows))
    same: list[SeenGpu] = sorted((each for each in rows if each.name == name), key=lambda each: each.index)
    least = min(each.total_gb for each in same)
    first = same[0]
    return Kit(
        gpu_names.standard(name), tuple(each.index for each in same), least, used, first.driver, first.compute_cap
    )


def devices_of(kit: Kit, settings: MachineSettings, slot: int, num_gpus: int) -> tuple[int, ...]:
    """Numbers of the GPUs of that slot; fewer than asked for if it has no more."""
    share = len(kit.devices) // settings.jobs
    return kit.devices[slot * share : (slot + 1) * share][:num_gpus]


def offers(
    name: str, settings: MachineSettings, seen: SeenMachine, query: OfferQuery, closes_at: datetime | None
) -> Iterator[Offer]:
    """Of each free slot, for each number of GPUs that is asked for. ``closes_at``: the end of its hours."""
    kit = kit_of(settings, seen)
    if kit is None or seen.is_taken_back or seen.disk_gb < query.disk_gb or kit.vram_gb < query.min_vram_gb:
        return
    taken = {lease.slot for lease in seen.leases}
    for slot in range(settings.jobs):
        if slot in taken:
            continue
        for gpu, count in query.gpus:
            devices = devices_of(kit, settings, slot, count)
            if len(devices) == count and gpu_names.is_called(kit.gpu, gpu) and not kit.used & set(devices):
                yield _offer(name, settings, seen, kit, gpu, slot, count, closes_at)


def _offer(
    name: str,
    settings: MachineSettings,
    seen: SeenMachine,
    kit: Kit,
    gpu: str,
    slot: int,
    count: int,
    closes_at: datetime | None,
) -> Offer:
    ram_gb = seen.ram_gb / settings.jobs
    return Offer(
        provider=PROVIDER,
        offer_id=f"{name}/{slot}/{count}",
        machine_id=f"{name}/{slot}",
        host_id=name,
        gpu=gpu,
        num_gpus=count,
        vram_gb=kit.vram_gb,
        floor=None,
        on_demand_price=settings.price,
        storage_price=ZERO,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=Decimal(1),
        verified=True,
        datacenter=False,
        disk_gb=seen.disk_gb,
        location=name,
        ends_at=closes_at,
        host=HostFacts(
            driver=kit.driver,
            compute_cap=kit.compute_cap,
            arch=seen.arch,
            cpus=Decimal(seen.cpus) / settings.jobs,
            ram_gb=ram_gb,
            shm_gb=ram_gb / SHM_SHARE,
        ),
    )


def parts_of_offer(identifier: str) -> tuple[str, int, int]:
    """Machine, slot and number of GPUs. Raises ``ValueError``."""
    found = _OFFER_ID.fullmatch(identifier)
    if found is None:
        raise ValueError(f"not an offer of a machine of one's own: {identifier!r}")
    return found[1], int(found[2]), int(found[3])


def directory_of(label: str) -> str:
    """The name of the lease's directory: the label itself, where that may be one."""
    return "L" * (not label[:1].isalnum()) + re.sub(r"[^A-Za-z0-9._-]", "_", label, flags=re.ASCII)[:110]


def id_of(machine: str, lease: str) -> str:
    return f"{machine}.{lease}"


def parts_of_id(instance_id: str) -> tuple[str, str]:
    """Machine and lease."""
    machine, _, lease = instance_id.partition(".")
    return machine, lease


def instance(name: str, settings: MachineSettings, lease: SeenLease) -> Instance:
    status = InstanceStatus.STOPPED if lease.state in _ENDS else _STATES.get(lease.state, InstanceStatus.RUNNING)
    stopper, message = _ENDS.get(lease.state, (None, ""))
    return Instance(
        provider=PROVIDER,
        instance_id=id_of(name, lease.name),
        label=lease.label,
        machine_id=f"{name}/{lease.slot}",
        host_id=name,
        capacity_type=CapacityType.ON_DEMAND,
        status=status,
        intended_running=lease.state not in ("stopped", "leaving"),
        bid=settings.price,
        storage_rate=ZERO,
        gpu=lease.gpu,
        num_gpus=lease.num_gpus,
        ends_at=lease.ends_at,
        message=message,
        # What took it was no higher bid.
        price_to_win=settings.price if lease.state == "taken" else None,
        stopped_by=stopper,
    )


def offline(shown: Iterable[Instance], words: str) -> tuple[Instance, ...]:
    """The same leases on a machine that does not answer."""
    return tuple(replace(each, status=InstanceStatus.OFFLINE, message=words) for each in shown)
