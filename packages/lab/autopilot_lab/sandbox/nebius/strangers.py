"""What else is in a project's lists: machines, policies and disks of colleagues, some of them of other kinds."""

from __future__ import annotations

from nebius.api.nebius.billing.v1 import PricingPolicy, PricingPolicySpec, PricingPolicyStatus
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    Disk,
    DiskStatus,
    Instance,
    InstanceSpec,
    InstanceStatus,
    ResourcesSpec,
    SpotPricingPolicySpec,
)

_STATE_99 = b"\x1a\x02\x08\x63"
"""Field 3, the status: an undocumented state."""
_POLICY = "pricingpolicy-e00colleague"


def vms(project: str) -> list[Instance]:
    plain = Instance(
        metadata=ResourceMetadata(id="computeinstance-e00colleague1", parent_id=project, name="colleague-notebook"),
        spec=InstanceSpec(resources=ResourcesSpec(platform="cpu-d3", preset="4vcpu-16gb")),
        status=InstanceStatus(state=InstanceStatus.InstanceState.UPDATING),
    )
    odd = Instance(
        metadata=ResourceMetadata(id="computeinstance-e00colleague2", parent_id=project, name="colleague-trainer"),
        spec=InstanceSpec(
            resources=ResourcesSpec(platform="gpu-unheard-of", preset="3gpu"),
            spot_pricing_policy=SpotPricingPolicySpec(id=_POLICY),
        ),
    )
    return [plain, Instance.FromString(odd.SerializeToString() + _STATE_99), plain]


def policies(project: str) -> list[PricingPolicy]:
    """Of another kind: it has no cap."""
    return [
        PricingPolicy(
            metadata=ResourceMetadata(id=_POLICY, parent_id=project, name="colleague-policy"),
            spec=PricingPolicySpec(),
            status=PricingPolicyStatus(state=PricingPolicyStatus.State.STATE_ACTIVE),
        )
    ]


def disks(project: str) -> list[Disk]:
    return [
        Disk(
            metadata=ResourceMetadata(id="computedisk-e00colleague", parent_id=project, name="colleague-data"),
            status=DiskStatus(state=DiskStatus.State.ERROR, size_bytes=-1),
        )
    ]
