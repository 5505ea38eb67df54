"""The SDK's messages → records of what is used of them. Everything a market sends is checked here, or not believed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice

from nebius.api.nebius.billing.v1 import PricingPolicy, PricingPolicyStatus
from nebius.api.nebius.billing.v1alpha1 import EstimateResponse, SpotPrice, SpotPriceSeries
from nebius.api.nebius.capacity.v1 import ResourceAdvice, ResourceAdviceStatus
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import Disk, Instance, InstanceRecoveryPolicy, Platform

from autopilot.domain.money import BYTES_PER_GB
from autopilot.providers import values
from autopilot.providers.nebius.names import is_ours

LONGEST_ID = 128
LONGEST_NAME = 1024
MOST_GPUS = 64
MOST_PRESETS = 64
LARGEST_DISK_GB = 1_000_000
MOST_POINTS = 1000
"""Points of one series: a week has 672 quarter hours."""
POLICY, DISK = "pricingpolicy-", "computedisk-"
"""How their ids begin."""


class UnreadableRow(Exception):
    """A row without what nothing works without."""


@dataclass(frozen=True, slots=True)
class VmRow:
    """``state``: by its name. ``policy_id`` empty: it has no cap. ``disk_name``: of the disk that goes with it."""

    vm_id: str
    name: str
    platform: str
    preset: str
    state: str
    is_settling: bool
    policy_id: str
    is_preemptible: bool
    fails_for_good: bool
    disk_gb: int
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """``max_price``: $/h of a GPU; None: it is of another kind, and not ours."""

    policy_id: str
    name: str
    platform: str
    max_price: Decimal | None
    state: str
    is_blocked: bool
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class DiskRow:
    disk_id: str
    name: str
    size_gb: int
    attached_to: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class PresetRow:
    platform: str
    preset: str
    num_gpus: int
    memory_gb: Decimal
    """Memory of a GPU."""
    cpus: Decimal | None = None
    ram_gb: Decimal | None = None
    """Of the whole machine."""


@dataclass(frozen=True, slots=True)
class SpotRow:
    """``price``: $/h of a GPU."""

    region: str
    platform: str
    sku_id: str
    price: Decimal


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """``free``: machines of that preset; None if the market does not know."""

    region: str
    platform: str
    preset: str
    free: int | None


def check_id(value: object) -> str | None:
    """An id as it may be sent."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID:
        return None
    return value if value.isascii() and value.replace("-", "").replace("_", "").isalnum() else None


def vm_row(message: Instance) -> VmRow:
    """Raises ``UnreadableRow``."""
    spec, disk = message.spec, message.spec.boot_disk
    managed = disk.managed_disk if disk is not None else None
    size = managed.spec.size_gibibytes if managed is not None else None
    preset = spec.resources.preset
    model = spec.pricing_model
    policy = spec.spot_pricing_policy
    return VmRow(
        vm_id=_id(message.metadata),
        name=_name(message.metadata),
        platform=values.text(spec.resources.platform)[:LONGEST_NAME],
        preset=values.text(preset)[:LONGEST_NAME],
        state=message.status.state.name,
        is_settling=message.status.reconciling,
        policy_id=(check_id(policy.id) or "") if policy is not None else "",
        is_preemptible=model is not None and model.field in ("spot_pricing_policy", "follows_spot_price"),
        fails_for_good=spec.recovery_policy == InstanceRecoveryPolicy.FAIL,
        disk_gb=size if isinstance(size, int) and 0 < size <= LARGEST_DISK_GB else 0,
        created_at=_made_at(message.metadata),
    )


def policy_row(message: PricingPolicy) -> PolicyRow:
    """Raises ``UnreadableRow``."""
    spec, cap = message.spec.compute_instance_spec, message.spec.pricing.max_price_v1
    price = values.price(cap.max_price) if cap is not None else None
    if price is None and is_ours(_name(message.metadata)):
        raise UnreadableRow("a policy of ours without a cap")
    blocked = PricingPolicyStatus.SchedulingState.SCHEDULING_STATE_BLOCKED
    v1 = spec.v1
    return PolicyRow(
        policy_id=_id(message.metadata),
        name=_name(message.metadata),
        platform=values.text(v1.platform)[:LONGEST_NAME] if v1 is not None else "",
        max_price=price,
        state=message.status.state.name,
        is_blocked=message.status.scheduling_state == blocked,
        created_at=_made_at(message.metadata),
    )


def disk_row(message: Disk) -> DiskRow:
    """Raises ``UnreadableRow``."""
    size = message.status.size_bytes
    return DiskRow(
        disk_id=_id(message.metadata),
        name=_name(message.metadata),
        size_gb=-(-size // 2**30) if isinstance(size, int) and 0 < size <= LARGEST_DISK_GB * 2**30 else 0,
        attached_to=values.text(message.status.read_write_attachment),
        created_at=_made_at(message.metadata),
    )


def preset_rows(message: Platform) -> list[PresetRow]:
    """Those that a preemptible machine may be of; none for what cannot be read."""
    spec = message.spec
    memory = values.number(spec.gpu_memory_gigabytes)
    platform = check_id(message.metadata.name)
    if not message.status.allowed_for_preemptibles or platform is None or memory is None or memory <= 0:
        return []
    return [
        PresetRow(
            platform,
            preset.name,
            preset.resources.gpu_count,
            memory,
            cpus=_at_least_1(preset.resources.vcpu_count),
            ram_gb=_in_gb(preset.resources.memory_gibibytes),
        )
        for preset in list(spec.presets)[:MOST_PRESETS]
        if check_id(preset.name) is not None and 0 < preset.resources.gpu_count <= MOST_GPUS
    ]


def _at_least_1(count: object) -> Decimal | None:
    """The market leaves zeros out: none is stated."""
    number = values.number(count)
    return number if number is not None and number >= 1 else None


def _in_gb(gibibytes: object) -> Decimal | None:
    number = _at_least_1(gibibytes)
    return None if number is None else number * 2**30 / BYTES_PER_GB


def spot_row(message: SpotPrice) -> SpotRow | None:
    """None for what is no price of a GPU in dollars."""
    price, compute = message.price, message.compute_instance
    read = values.price(price.value)
    platform, region = check_id(compute.platform) if compute is not None else None, check_id(message.region)
    is_dollars = price.currency.lower() == "usd" and price.unit_title.lower() == "gpu hour"
    if read is None or read <= 0 or platform is None or region is None or not is_dollars:
        return None
    return SpotRow(region, platform, check_id(message.sku_id) or "", read)


def series_points(message: SpotPriceSeries) -> dict[datetime, Decimal]:
    """$/h of a GPU in the step that ended then; nothing of what is no price of a GPU in dollars."""
    if message.currency.lower() != "usd" or message.unit_title.lower() != "gpu hour":
        return {}
    points: dict[datetime, Decimal] = {}
    for point in islice(message.points, MOST_POINTS):
        price = values.price(point.value)
        try:
            ended_at = point.timestamp
        except ValueError:  # No calendar has it.
            continue
        if price is not None and price > 0 and ended_at is not None:
            points[ended_at] = price
    return points


def advice_row(message: ResourceAdvice) -> AdviceRow | None:
    compute, free = message.spec.compute_instance, message.status.preemptible
    if compute is None:
        return None
    is_fresh = free.data_state == ResourceAdviceStatus.Availability.DataState.DATA_STATE_FRESH
    return AdviceRow(message.spec.region, compute.platform, compute.preset.name, free.available if is_fresh else None)


def hourly_cost(message: EstimateResponse) -> Decimal | None:
    """$/h."""
    general = message.hourly_cost.general
    return values.price(general.total.cost) if general is not None else None


def _id(metadata: ResourceMetadata) -> str:
    found = check_id(metadata.id)
    if found is None:
        raise UnreadableRow("a row without an id")
    return found


def _name(metadata: ResourceMetadata) -> str:
    return values.label(metadata.name)[:LONGEST_NAME]


def _made_at(metadata: ResourceMetadata) -> datetime | None:
    """None for what no calendar has."""
    try:
        return metadata.created_at
    except ValueError:
        return None
