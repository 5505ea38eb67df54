"""What a create asks for, and whether what came of it is that."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from nebius.api.nebius.billing.v1 import (
    ComputeInstanceSpec,
    ComputeInstanceSpecV1,
    CreatePricingPolicyRequest,
    MaxPriceV1,
    PricingMethod,
    PricingPolicySpec,
)
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    AttachedDiskSpec,
    CreateInstanceRequest,
    DiskSpec,
    InstanceRecoveryPolicy,
    InstanceSpec,
    IPAddress,
    ManagedDisk,
    NetworkInterfaceSpec,
    PreemptibleSpec,
    PublicIPAddress,
    ResourcesSpec,
    SourceImageFamily,
    SpotPricingPolicySpec,
)

from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.nebius import mapping, names, wire
from autopilot.providers.user_data import startup_script

LONGEST_SCRIPT = 32_768
"""Characters of user data."""
LONGEST_LABEL = 64
LEAST_DISK_GB = 40
"""The boot image fits on no smaller disk."""


@dataclass(frozen=True, slots=True)
class VmRequest:
    """A create as this market asks for it. ``bid``: $/h of the whole machine."""

    name: str
    region: str
    platform: str
    preset: str
    bid: Decimal
    disk_gb: int
    script: str


def vm_request(request: CreateRequest) -> VmRequest:
    """Raises ``ValueError`` for what the market would turn down."""
    region, platform, preset = mapping.parts_of_offer(request.offer_id)
    script = startup_script(request.onstart, request.env)
    disk_gb = max(int(request.disk_gb.to_integral_value(ROUND_CEILING)), LEAST_DISK_GB)
    faults = {
        "nothing is rented here on demand": request.capacity_type is not CapacityType.SPOT,
        f"a name has 1 to {LONGEST_LABEL} characters": not 0 < len(request.label) <= LONGEST_LABEL,
        f"the user data has {len(script)} characters; the market takes {LONGEST_SCRIPT}": len(script) > LONGEST_SCRIPT,
        f"a disk of {disk_gb} GB is too large": disk_gb > wire.LARGEST_DISK_GB,
    }
    if present := [fault for fault, is_present in faults.items() if is_present]:
        raise ValueError("; ".join(present))
    return VmRequest(names.name_of(request.label), region, platform, preset, request.bid, disk_gb, script)


def policy_message(name: str, project: str, platform: str, max_price: Decimal) -> CreatePricingPolicyRequest:
    """``max_price``: $/h of a GPU."""
    return CreatePricingPolicyRequest(
        metadata=ResourceMetadata(parent_id=project, name=name),
        spec=PricingPolicySpec(
            compute_instance_spec=ComputeInstanceSpec(v1=ComputeInstanceSpecV1(platform=platform)),
            pricing=PricingMethod(max_price_v1=MaxPriceV1(max_price=f"{max_price:.3f}")),
        ),
    )


def vm_message(
    wanted: VmRequest, project: str, subnet: str, policy_id: str, image_family: str
) -> CreateInstanceRequest:
    """A machine that stays stopped where the market, or its own power switch, stops it."""
    disk = DiskSpec(
        type=DiskSpec.DiskType.NETWORK_SSD,
        size_gibibytes=wanted.disk_gb,
        source_image_family=SourceImageFamily(image_family=image_family),
    )
    return CreateInstanceRequest(
        metadata=ResourceMetadata(parent_id=project, name=wanted.name),
        spec=InstanceSpec(
            resources=ResourcesSpec(platform=wanted.platform, preset=wanted.preset),
            boot_disk=AttachedDiskSpec(
                attach_mode=AttachedDiskSpec.AttachMode.READ_WRITE,
                managed_disk=ManagedDisk(name=wanted.name, spec=disk),
            ),
            network_interfaces=[
                NetworkInterfaceSpec(
                    name="eth0", subnet_id=subnet, ip_address=IPAddress(), public_ip_address=PublicIPAddress()
                )
            ],
            preemptible=PreemptibleSpec(on_preemption=PreemptibleSpec.PreemptionPolicy.STOP),
            spot_pricing_policy=SpotPricingPolicySpec(id=policy_id),
            recovery_policy=InstanceRecoveryPolicy.FAIL,
            cloud_init_user_data=wanted.script,
        ),
    )


def difference(made: wire.VmRow, wanted: VmRequest, policy_id: str) -> str | None:
    """How the machine differs from what was asked for, or None when it does not."""
    if made.name != wanted.name:
        return f"asked for a machine called {wanted.name}, got {made.name!r}"
    if (made.platform, made.preset) != (wanted.platform, wanted.preset):
        return f"asked for {wanted.platform} {wanted.preset}, got {made.platform} {made.preset}"
    if not made.is_preemptible or made.policy_id != policy_id:
        return "asked for a machine under its own cap, got one without it"
    if not made.fails_for_good:
        return "asked for a machine that stays off once it is switched off, got one that is started again"
    return None
