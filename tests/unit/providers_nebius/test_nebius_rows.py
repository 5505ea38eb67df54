"""The SDK's messages as records: all that a market sends is bounded, or not believed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from nebius.api.nebius.billing.v1 import MaxPriceV1, PricingMethod, PricingPolicy, PricingPolicySpec
from nebius.api.nebius.billing.v1alpha1 import SpotPrice, SpotPriceComputeInstance, SpotPriceValue
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    AttachedDiskSpec,
    DiskSpec,
    Instance,
    InstanceRecoveryPolicy,
    InstanceSpec,
    InstanceStatus,
    ManagedDisk,
    Platform,
    PlatformSpec,
    PlatformStatus,
    Preset,
    PresetResources,
)

from autopilot.domain import instance as domain
from autopilot.domain.offer import CapacityType
from autopilot.providers.nebius import mapping, wire

D = Decimal


def vm(**changes: Any) -> Instance:
    return Instance(**{"metadata": ResourceMetadata(id="computeinstance-1", name="ap1-x-01"), **changes})


@pytest.mark.parametrize("vm_id", ["", "x" * 129, "a/b", "a b", "ä", "../x"])
def test_a_machine_without_a_sound_id_is_none(vm_id: str) -> None:
    with pytest.raises(wire.UnreadableRow):
        wire.vm_row(vm(metadata=ResourceMetadata(id=vm_id)))


def test_an_empty_machine_is_on_demand_without_a_disk_and_of_no_known_state() -> None:
    row = wire.vm_row(vm())
    assert (row.disk_gb, row.is_preemptible, row.policy_id, row.state) == (0, False, "", "UNSPECIFIED")
    shown = mapping.instance(row, "eu-north1", None, None, None, None, start_failed=False)
    assert shown.status is domain.InstanceStatus.RUNNING
    assert shown.capacity_type is CapacityType.ON_DEMAND


@pytest.mark.parametrize("policy", [InstanceRecoveryPolicy.FAIL, InstanceRecoveryPolicy.RECOVER])
def test_a_machine_that_would_be_started_again_is_not_as_asked(policy: InstanceRecoveryPolicy) -> None:
    row = wire.vm_row(vm(spec=InstanceSpec(recovery_policy=policy)))
    shown = mapping.instance(row, "eu-north1", None, None, None, None, start_failed=False)
    assert shown.is_as_asked is (policy == InstanceRecoveryPolicy.FAIL)


def test_a_machine_in_an_unknown_state_is_booked_as_if_it_ran() -> None:
    """No bill would mend the books, and limits would hold back too little."""
    raw = vm().SerializeToString() + b"\x1a\x02\x08\x63"  # field 3, the status: state 99
    row = wire.vm_row(Instance.FromString(raw))
    shown = mapping.instance(row, "eu-north1", None, None, None, None, start_failed=False)
    assert shown.status is domain.InstanceStatus.RUNNING


@pytest.mark.parametrize("size", [-1, 0, 10**12])
def test_a_size_that_no_disk_has_is_none(size: int) -> None:
    disk = AttachedDiskSpec(managed_disk=ManagedDisk(spec=DiskSpec(size_gibibytes=size)))
    assert wire.vm_row(vm(spec=InstanceSpec(boot_disk=disk))).disk_gb == 0


@pytest.mark.parametrize("cap", ["", "NaN", "-1", "1e9", "Infinity", "x" * 1000])
def test_a_policy_without_a_cap_is_none(cap: str) -> None:
    spec = PricingPolicySpec(pricing=PricingMethod(max_price_v1=MaxPriceV1(max_price=cap)))
    ours, theirs = (ResourceMetadata(id="pricingpolicy-1", name=name) for name in ("ap1-x-01", "nightly"))
    with pytest.raises(wire.UnreadableRow):
        wire.policy_row(PricingPolicy(metadata=ours, spec=spec))
    assert wire.policy_row(PricingPolicy(metadata=theirs, spec=spec)).max_price is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": "0"}, {"value": "-2"}, {"value": "NaN"}, {"value": "99999"}, {"currency": "eur"},
        {"unit_title": "GPU month"},
    ],
)  # fmt: skip
def test_what_is_no_price_of_a_gpu_in_dollars_is_left_out(wrong: dict[str, str]) -> None:
    def row(**changes: str) -> wire.SpotRow | None:
        said: dict[str, Any] = {"value": "2.15", "currency": "usd", "unit_title": "GPU hour", **changes}
        price = SpotPriceValue(**said)
        compute = SpotPriceComputeInstance(platform="gpu-h200-sxm")
        return wire.spot_row(SpotPrice(region="eu-north1", compute_instance=compute, price=price))

    assert row() is not None
    assert row(**wrong) is None


@pytest.mark.parametrize("gpus", [0, -1, 65, 2**31 - 1])
def test_a_preset_of_no_or_countless_gpus_is_left_out(gpus: int) -> None:
    platform = Platform(
        metadata=ResourceMetadata(name="gpu-h200-sxm"),
        spec=PlatformSpec(
            gpu_memory_gigabytes=141, presets=[Preset(name="p", resources=PresetResources(gpu_count=gpus))]
        ),
        status=PlatformStatus(allowed_for_preemptibles=True),
    )
    assert wire.preset_rows(platform) == []


@pytest.mark.parametrize(
    ("state", "is_settling", "status"),
    [
        ("CREATING", True, "provisioning"),
        ("STARTING", True, "provisioning"),
        ("STOPPED", True, "provisioning"),
        ("RUNNING", False, "running"),
        ("STOPPING", True, "running"),
        ("UPDATING", True, "running"),
        ("STOPPED", False, "stopped"),
        ("DELETING", True, "stopped"),
        ("ERROR", False, "stopped"),
    ],
)
def test_states(state: str, is_settling: bool, status: str) -> None:
    told = InstanceStatus(state=getattr(InstanceStatus.InstanceState, state), reconciling=is_settling)
    assert mapping.status(wire.vm_row(vm(status=told))) == status


@pytest.mark.parametrize(
    ("bid", "gpus", "highest", "cap"),
    [
        ("2.5", 1, None, "2.500"),
        ("17.99", 8, None, "2.248"),
        ("0.0009", 1, None, "0.000"),
        ("9", 1, "5.39", "5.39"),
    ],
)
def test_a_cap_is_for_one_gpu_and_never_more_than_was_asked_for(
    bid: str, gpus: int, highest: str | None, cap: str
) -> None:
    assert mapping.cap_for(D(bid), gpus, None if highest is None else D(highest)) == D(cap)


@pytest.mark.parametrize(
    ("platform", "gpu"),
    [
        ("gpu-h100-sxm", "H100 SXM"),
        ("gpu-b200-sxm-a", "B200"),
        ("gpu-l40s-d", "L40S"),
        ("gpu-rtx6000-a", "RTX PRO 6000 S"),
        ("cpu-d3", ""),
    ],
)
def test_names_of_gpus(platform: str, gpu: str) -> None:
    assert mapping.gpu_of(platform) == gpu
