"""The catalogue of GPU models: list prices per GPU, and ``lowestPrice`` for a whole pod of so many GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.runpod.exchange import Exchange
from autopilot_lab.sandbox.runpod.machines import Cloud, GpuType, Machine, Requirements
from autopilot_lab.sandbox.runpod.placement import free_gpus, free_of_on_demand

_HIGH_SHARE, _MEDIUM_SHARE = 0.5, 0.2
"""Stock is High or Medium when at least this share of the GPUs can be had."""


@dataclass(frozen=True)
class Stock:
    """What is to be had for ``gpu_count`` GPUs together. Prices are $/h for all of them; ``None``: nothing."""

    spot_floor: Decimal | None
    on_demand: Decimal | None
    status: str | None
    """High, Medium, Low or None; ``None`` when no machine would do even if it were empty."""
    counts: tuple[int, ...]
    """How many GPUs can be had together."""
    vcpus: int | None
    memory_gb: int | None
    rented: int
    total: int


def gpu_types(market: Exchange) -> list[GpuType]:
    """Models of the fleet, in order of appearance."""
    return list({machine.spec.gpu_type.id: machine.spec.gpu_type for machine in market.machines.values()}.values())


def machines_of(market: Exchange, gpu_type: GpuType, clouds: Iterable[Cloud] = Cloud) -> list[Machine]:
    wanted = frozenset(clouds)
    return [each for each in market.machines.values() if each.spec.gpu_type == gpu_type and each.spec.cloud in wanted]


def list_price(market: Exchange, gpu_type: GpuType, cloud: Cloud) -> Decimal | None:
    """On demand, $/h per GPU."""
    return min((each.spec.on_demand for each in machines_of(market, gpu_type, [cloud])), default=None)


def spot_price(market: Exchange, gpu_type: GpuType, cloud: Cloud) -> Decimal | None:
    """The lowest floor, $/h per GPU."""
    floors = [each.floor for each in machines_of(market, gpu_type, [cloud]) if each.state is HostState.ONLINE]
    return min((floor for floor in floors if floor is not None), default=None)


def max_gpu_count(market: Exchange, gpu_type: GpuType, clouds: Iterable[Cloud] = Cloud) -> int:
    return max((each.spec.gpu_count for each in machines_of(market, gpu_type, clouds)), default=0)


def stock(market: Exchange, gpu_type: GpuType, wanted: Requirements, gpu_count: int) -> Stock:
    suitable = [each for each in machines_of(market, gpu_type) if wanted.met_by(each, gpu_count)]
    holders = {each.spec.machine_id: market.tenants(each) for each in suitable}
    free = {each.spec.machine_id: free_gpus(each, holders[each.spec.machine_id]) for each in suitable}
    available = {each.spec.machine_id: free_of_on_demand(each, holders[each.spec.machine_id]) for each in suitable}
    floors = [each.floor for each in suitable if each.floor is not None and free[each.spec.machine_id] >= gpu_count]
    open_ones = [each for each in suitable if available[each.spec.machine_id] >= gpu_count]
    cheapest = min(open_ones, key=lambda each: (each.spec.on_demand, each.spec.machine_id), default=None)
    total = sum(each.spec.gpu_count for each in suitable)
    return Stock(
        spot_floor=min(floors) * gpu_count if floors else None,
        on_demand=cheapest.spec.on_demand * gpu_count if cheapest else None,
        status=_status(sum(available.values()), total) if suitable else None,
        counts=tuple(range(1, max(available.values(), default=0) + 1)),
        vcpus=cheapest.spec.vcpus_per_gpu * gpu_count if cheapest else None,
        memory_gb=cheapest.spec.memory_gb_per_gpu * gpu_count if cheapest else None,
        rented=total - sum(free.values()),
        total=total,
    )


def _status(available: int, total: int) -> str:
    if available == 0:
        return "None"
    share = available / total
    return "High" if share >= _HIGH_SHARE else "Medium" if share >= _MEDIUM_SHARE else "Low"
