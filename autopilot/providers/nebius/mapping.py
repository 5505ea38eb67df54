"""Records of the wire → the domain's values. Pure.

Nebius sells no single machines: a preset of a platform in a region is a *pool*. A virtual machine is our instance; the
policy that holds its cap is a thing of its own, and so may its disk become: what is left of them shows as a stopped
machine, so that it is given back like one.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from autopilot.domain import gpu_names
from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.money import ZERO, storage_rate
from autopilot.domain.offer import CapacityType, Offer
from autopilot.providers.nebius import names
from autopilot.providers.nebius.wire import DiskRow, PolicyRow, PresetRow, VmRow
from autopilot.providers.vm_hosts import facts_of_vm

PROVIDER = "nebius"
CAP_UNIT = Decimal("0.001")
"""Step of a cap, $/h of a GPU."""
BELOW_ON_DEMAND = Decimal("0.01")
"""$/h of a GPU: the highest cap lies so far below the price on demand."""
UNRATED = Decimal(1)
"""The market publishes no reliability."""
LARGEST_DISK_GB = Decimal(4096)
"""Largest boot disk that we offer."""

_GPUS = {
    "h100-sxm": "H100 SXM",
    "h200-sxm": "H200",
    "b200-sxm": "B200",
    "b300-sxm": "B300",
    "gb300": "GB300",
    "l40s": "L40S",
    "rtx6000": "RTX PRO 6000 S",
}
STATES = {
    "CREATING": InstanceStatus.PROVISIONING,
    "STARTING": InstanceStatus.PROVISIONING,
    # It may be on meanwhile: nothing says that it was outbid.
    "UPDATING": InstanceStatus.RUNNING,
    "RUNNING": InstanceStatus.RUNNING,
    # It is billed until it is off.
    "STOPPING": InstanceStatus.RUNNING,
    "STOPPED": InstanceStatus.STOPPED,
    "DELETING": InstanceStatus.STOPPED,
    "ERROR": InstanceStatus.STOPPED,
}
_OFFER_ID = re.compile(r"([a-z0-9-]{1,40})/([A-Za-z0-9_-]{1,64})/([A-Za-z0-9_-]{1,64})")
_CUDA = re.compile(r"cuda(\d{1,2}\.\d)(?!\d)", re.ASCII)
_VARIANT = re.compile(r"-[a-d]$")


def pool_id(region: str, platform: str, preset: str) -> str:
    return f"{region}/{platform}/{preset}"


def parts_of_offer(identifier: str) -> tuple[str, str, str]:
    """(region, platform, preset). Raises ``ValueError`` for what is no offer id of this market."""
    match = _OFFER_ID.fullmatch(identifier)
    if match is None:
        raise ValueError(f"not an offer id of this market: {identifier!r}")
    return match[1], match[2], match[3]


def gpu_of(platform: str) -> str:
    """``H200`` for ``gpu-h200-sxm``: the standard name where there is one. Empty: it has no GPU."""
    if not platform.startswith("gpu-"):
        return ""
    short = _VARIANT.sub("", platform.removeprefix("gpu-"))
    return _GPUS.get(short) or gpu_names.standard(short.replace("-", " ").upper())


def cap_for(bid: Decimal, num_gpus: int, highest: Decimal | None) -> Decimal:
    """$/h of a GPU: the bid as the market takes it, never more than was asked for. ``highest``: that it takes."""
    cap = (bid / num_gpus).quantize(CAP_UNIT, ROUND_FLOOR)
    return cap if highest is None else min(cap, highest)


def least_cap(spot: Decimal) -> Decimal:
    """$/h of a GPU: the least cap that is not below the price."""
    return spot.quantize(CAP_UNIT, ROUND_CEILING)


def offer(row: PresetRow, region: str, gpu: str, spot: Decimal, disk_price: Decimal, image_family: str = "") -> Offer:
    """``gpu``: the name under which it was asked for. ``spot``: $/h of a GPU; ``disk_price``: $/GB-month.
    ``image_family``: of the boot image, which brings the driver.
    """
    identifier = pool_id(region, row.platform, row.preset)
    return Offer(
        provider=PROVIDER,
        offer_id=identifier,
        machine_id=identifier,
        host_id="",
        gpu=gpu,
        num_gpus=row.num_gpus,
        vram_gb=row.memory_gb,
        floor=least_cap(spot) * row.num_gpus,
        on_demand_price=None,
        storage_price=disk_price,
        upload_price=ZERO,
        download_price=ZERO,
        download_mbps=ZERO,
        reliability=UNRATED,
        verified=True,
        datacenter=True,
        disk_gb=LARGEST_DISK_GB,
        location=region,
        ends_at=None,
        host=facts_of_vm(region, row.cpus, row.ram_gb, _cuda_of(image_family)),
    )


def _cuda_of(image_family: str) -> Decimal | None:
    """``ubuntu24.04-cuda13.0`` has a driver for CUDA 13.0."""
    found = _CUDA.search(image_family)
    return None if found is None else Decimal(found[1])


def status(vm: VmRow) -> InstanceStatus:
    """A new machine is listed as stopped before it starts: while something is being done to it, it is not at rest."""
    # In an unknown state it may be billed. No bill corrects the books later, so it counts as running.
    state = STATES.get(vm.state, InstanceStatus.RUNNING)
    return InstanceStatus.PROVISIONING if vm.state == "STOPPED" and vm.is_settling else state


def message(vm: VmRow, policy: PolicyRow | None, spot: Decimal | None) -> str:
    if vm.state == "STOPPED" and not vm.is_settling and policy is not None:
        is_below = spot is not None and policy.max_price is not None and spot > policy.max_price
        if policy.is_blocked or is_below:
            return "stopped: the spot price is above the cap"
        return "stopped, and not for its price: hardware was taken back, or somebody stopped it"
    return f"machine {vm.state}"


def instance(
    vm: VmRow,
    region: str,
    policy: PolicyRow | None,
    preset: PresetRow | None,
    spot: Decimal | None,
    disk_price: Decimal | None,
    *,
    start_failed: bool,
) -> Instance:
    """``preset`` None: the market does not list it any more. ``spot``: $/h of a GPU; None: it cannot be told now."""
    state = status(vm)
    num_gpus = preset.num_gpus if preset is not None else 0
    price = None if spot is None else spot * num_gpus
    # Without its policy a machine cannot start; one that never had any, or has one without a cap, pays any price.
    is_gone = bool(vm.policy_id) and policy is None
    accepted = ZERO if is_gone or price is None else price
    bid = accepted if policy is None or policy.max_price is None else policy.max_price * num_gpus
    is_stopped = state is InstanceStatus.STOPPED
    return Instance(
        provider=PROVIDER,
        instance_id=vm.vm_id,
        label=names.label_of(vm.name),
        machine_id=pool_id(region, vm.platform, vm.preset),
        host_id="",
        capacity_type=CapacityType.SPOT if vm.is_preemptible else CapacityType.ON_DEMAND,
        status=state,
        intended_running=state in (InstanceStatus.PROVISIONING, InstanceStatus.RUNNING) and vm.state != "STOPPING",
        bid=bid,
        storage_rate=ZERO if disk_price is None else storage_rate(disk_price, Decimal(vm.disk_gb)),
        gpu=gpu_of(vm.platform),
        num_gpus=num_gpus,
        ends_at=None,
        message=message(vm, policy, spot),
        start_failed=vm.state == "ERROR" or (is_stopped and start_failed),
        price_to_win=least_cap(spot) * num_gpus if spot is not None and is_stopped and vm.is_preemptible else None,
        price=None if price is None or not vm.is_preemptible else min(price, bid),
        stopped_by=_stopped_by(vm, policy, spot) if is_stopped else None,
        # Otherwise it would be started again whenever it switches itself off.
        is_as_asked=vm.fails_for_good,
    )


def _stopped_by(vm: VmRow, policy: PolicyRow | None, spot: Decimal | None) -> Stopper | None:
    """No field tells a loss from a stop in the console, or from one by the machine itself. While the price is not known
    a cap that is blocked tells that it is below."""
    if vm.state == "ERROR":
        return Stopper.HOST
    return Stopper.BIDDER if policy is not None and policy.is_blocked and spot is None else None


def leftover(left: PolicyRow | DiskRow, region: str, disk_price: Decimal | None, instance_id: str = "") -> Instance:
    """What is left of a machine that is gone. ``instance_id``: its own, where that is known."""
    is_disk = isinstance(left, DiskRow)
    size = Decimal(left.size_gb) if isinstance(left, DiskRow) else ZERO
    return Instance(
        provider=PROVIDER,
        instance_id=instance_id or (left.disk_id if isinstance(left, DiskRow) else left.policy_id),
        label=names.label_of(left.name),
        machine_id=region,
        host_id="",
        capacity_type=CapacityType.SPOT,
        status=InstanceStatus.STOPPED,
        intended_running=False,
        bid=ZERO,
        storage_rate=ZERO if disk_price is None else storage_rate(disk_price, size),
        gpu="",
        num_gpus=0,
        ends_at=None,
        message="a disk that its machine left behind" if is_disk else "a cap that its machine left behind: it is free",
    )
