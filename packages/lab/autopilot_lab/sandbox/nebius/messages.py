"""The market's answers as the vendor's own messages."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from nebius.api.google.protobuf import Any as Packed
from nebius.api.google.rpc import Status
from nebius.api.nebius.billing.v1 import (
    ComputeInstanceSpec,
    ComputeInstanceSpecV1,
    MaxPriceV1,
    PricingMethod,
    PricingPolicy,
    PricingPolicySpec,
    PricingPolicyStatus,
)
from nebius.api.nebius.billing.v1alpha1 import (
    SpotPrice,
    SpotPriceComputeInstance,
    SpotPricePoint,
    SpotPriceSeries,
    SpotPriceValue,
)
from nebius.api.nebius.capacity.v1 import (
    ComputeInstanceDetails,
    ResourceAdvice,
    ResourceAdviceSpec,
    ResourceAdviceStatus,
)
from nebius.api.nebius.common.v1 import Operation as OperationMessage
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    AttachedDiskSpec,
    Disk,
    DiskSpec,
    DiskStatus,
    Instance,
    InstanceRecoveryPolicy,
    InstanceSpec,
    InstanceStatus,
    ManagedDisk,
    NetworkInterfaceSpec,
    Platform,
    PlatformSpec,
    PlatformStatus,
    PreemptibleSpec,
    Preset,
    PresetResources,
    ResourcesSpec,
    SourceImageFamily,
    SpotPricingPolicySpec,
)

from autopilot_lab.sandbox.nebius.market import NebiusMarket, disk_name
from autopilot_lab.sandbox.nebius.pools import NebiusPool, PresetSpec
from autopilot_lab.sandbox.nebius.refusals import ERROR_TYPE
from autopilot_lab.sandbox.nebius.vms import CapPolicy, MarketOperation, Vm


def operation(made: MarketOperation) -> OperationMessage:
    status = None
    if made.code is not None:
        details = [Packed(type_url=ERROR_TYPE, value=made.error)] if made.error else []
        status = Status(code=made.code, message=made.message, details=details)
    shown = OperationMessage(
        id=made.id, description=made.description, created_at=made.created_at, resource_id=made.resource_id
    )
    if made.finished_at is not None:
        shown.finished_at = made.finished_at
    raw = shown.SerializeToString()
    if status is None:
        return shown
    body = status.SerializeToString()
    # Field 10. The SDK's class reads a status and takes none.
    return OperationMessage.FromString(raw + b"\x52" + _varint(len(body)) + body)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def policy(market: NebiusMarket, made: CapPolicy) -> PricingPolicy:
    """Its labels are thrown away, and zeros at the end of its cap, too."""
    states, scheduling = PricingPolicyStatus.State, PricingPolicyStatus.SchedulingState
    blocked = market.is_blocked(made)
    return PricingPolicy(
        metadata=ResourceMetadata(
            id=made.id,
            parent_id=made.project,
            name=made.name,
            resource_version=made.version,
            created_at=made.created_at,
        ),
        spec=PricingPolicySpec(
            compute_instance_spec=ComputeInstanceSpec(v1=ComputeInstanceSpecV1(platform=made.platform)),
            pricing=PricingMethod(max_price_v1=MaxPriceV1(max_price=_short(made.max_price))),
        ),
        status=PricingPolicyStatus(
            state=getattr(states, made.state),
            sku_id=market.pool_at(made.project, made.platform).sku_id,
            scheduling_state=scheduling.SCHEDULING_STATE_BLOCKED if blocked else scheduling.SCHEDULING_STATE_ALLOWED,
            running_vm_count=len(market.running_under(made)),
            currency="usd",
        ),
    )


def _short(amount: Decimal) -> str:
    return f"{amount:f}".rstrip("0").rstrip(".") or "0"


def vm(made: Vm, *, shows_name: bool = True) -> Instance:
    order = made.order
    disk = DiskSpec(
        type=DiskSpec.DiskType.NETWORK_SSD,
        size_gibibytes=order.disk_gb,
        source_image_family=SourceImageFamily(image_family=order.image_family),
    )
    recovery = InstanceRecoveryPolicy.FAIL if order.fails_for_good else InstanceRecoveryPolicy.RECOVER
    return Instance(
        metadata=ResourceMetadata(
            id=made.id,
            parent_id=order.project,
            name=order.name if shows_name else f"instance-{made.id[-4:]}",
            resource_version=made.version,
            created_at=made.created_at,
        ),
        spec=InstanceSpec(
            resources=ResourcesSpec(platform=order.platform, preset=order.preset),
            boot_disk=AttachedDiskSpec(
                attach_mode=AttachedDiskSpec.AttachMode.READ_WRITE,
                managed_disk=ManagedDisk(name=order.name, spec=disk),
            ),
            network_interfaces=[NetworkInterfaceSpec(name="eth0", subnet_id=order.subnet)],
            preemptible=PreemptibleSpec(on_preemption=PreemptibleSpec.PreemptionPolicy.STOP),
            spot_pricing_policy=SpotPricingPolicySpec(id=made.policy_id),
            recovery_policy=recovery,
            cloud_init_user_data=order.user_data,
        ),
        status=InstanceStatus(
            state=getattr(InstanceStatus.InstanceState, "UPDATING" if made.is_updating else made.state),
            reconciling=made.is_settling or made.is_updating,
        ),
    )


def disk(made: Vm) -> Disk:
    return Disk(
        metadata=ResourceMetadata(
            id=disk_name(made), parent_id=made.order.project, name=made.order.name, created_at=made.created_at
        ),
        spec=DiskSpec(type=DiskSpec.DiskType.NETWORK_SSD, size_gibibytes=made.order.disk_gb),
        status=DiskStatus(
            state=DiskStatus.State.READY,
            read_write_attachment="" if made.is_gone else made.id,
            size_bytes=made.order.disk_gb * 2**30,
            managed_by="" if made.is_gone else made.id,
        ),
    )


def platform(pool: NebiusPool, project: str) -> Platform:
    spec = pool.spec.platform
    return Platform(
        metadata=ResourceMetadata(id=f"computeplatform-{spec.name}", parent_id=project, name=spec.name),
        spec=PlatformSpec(
            presets=[_preset(each) for each in spec.presets],
            human_readable_name=spec.title,
            gpu_memory_gigabytes=spec.gpu_memory_gb,
        ),
        status=PlatformStatus(allowed_for_preemptibles=True),
    )


def _preset(spec: PresetSpec) -> Preset:
    resources = PresetResources(vcpu_count=spec.vcpus, memory_gibibytes=spec.ram_gb, gpu_count=spec.gpus)
    return Preset(name=spec.name, resources=resources)


def spot_price(pool: NebiusPool) -> SpotPrice:
    return SpotPrice(
        sku_id=pool.sku_id,
        product_title=f"{pool.spec.platform.title}, preemptible",
        region=pool.spec.region,
        compute_instance=SpotPriceComputeInstance(platform=pool.spec.platform.name),
        price=SpotPriceValue(value=_short(pool.price), currency="usd", unit_title="GPU hour"),
        effective_time=pool.quotes[-1].at,
    )


def series(pool: NebiusPool, start: datetime, end: datetime, step: timedelta, method: str) -> SpotPriceSeries:
    """A point for each step that ends in the span, by the quotes in force in it."""
    points, at = [], start + step
    while at <= end:
        within = [quote.price for quote in pool.quotes if at - step < quote.at <= at]
        before = [quote.price for quote in pool.quotes if quote.at <= at - step]
        held = (before[-1:] or []) + within
        if held:
            by_method = {"FIRST": held[0], "LAST": held[-1], "AVG": sum(held, Decimal(0)) / len(held)}
            points.append(SpotPricePoint(timestamp=at, value=_short(by_method[method].quantize(Decimal("0.0001")))))
        at += step
    return SpotPriceSeries(
        sku_id=pool.sku_id,
        region=pool.spec.region,
        compute_instance=SpotPriceComputeInstance(platform=pool.spec.platform.name),
        currency="usd",
        unit_title="GPU hour",
        points=points,
    )


def advice(pool: NebiusPool, spec: PresetSpec, free_gpus: int) -> ResourceAdvice:
    states = ResourceAdviceStatus.Availability
    shown = states(
        data_state=states.DataState.DATA_STATE_FRESH,
        available=free_gpus // spec.gpus,
        availability_level=states.AvailabilityLevel.AVAILABILITY_LEVEL_MEDIUM,
    )
    return ResourceAdvice(
        metadata=ResourceMetadata(id=f"advice-{pool.sku_id}-{spec.gpus}"),
        spec=ResourceAdviceSpec(
            region=pool.spec.region,
            fabric="fabric-1",
            compute_instance=ComputeInstanceDetails(
                platform=pool.spec.platform.name, preset=ComputeInstanceDetails.Preset(name=spec.name)
            ),
        ),
        status=ResourceAdviceStatus(preemptible=shown),
    )
