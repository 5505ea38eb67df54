"""Who gets a machine's GPUs: free ones first; else a newcomer pushes out those who bid strictly less per GPU.

An on-demand customer pushes out any spot tenant and is never pushed out. The host's floor decides who may come,
never who has to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from autopilot_lab.sandbox.runpod.machines import Machine

BID_STEP = Decimal("0.01")


@dataclass(frozen=True)
class Tenant:
    """Someone who holds ``gpu_count`` GPUs. ``bid`` ($/h per GPU) is ``None`` for on-demand."""

    key: str
    gpu_count: int
    bid: Decimal | None
    arrival: int


def free_gpus(machine: Machine, tenants: Sequence[Tenant]) -> int:
    return machine.spec.gpu_count - sum(tenant.gpu_count for tenant in tenants)


def free_of_on_demand(machine: Machine, tenants: Sequence[Tenant]) -> int:
    """GPUs that an on-demand customer could have."""
    return machine.spec.gpu_count - sum(tenant.gpu_count for tenant in tenants if tenant.bid is None)


def evictions(
    machine: Machine, tenants: Sequence[Tenant], gpu_count: int, bid: Decimal | None
) -> tuple[Tenant, ...] | None:
    """Whom a newcomer pushes out, lowest bid and latest arrival first; ``None`` when it finds no room."""
    missing = gpu_count - free_gpus(machine, tenants)
    evicted: list[Tenant] = []
    for tenant in _weakest_first(tenants):
        if missing <= 0:
            break
        if bid is not None and tenant.bid is not None and tenant.bid >= bid:
            return None
        evicted.append(tenant)
        missing -= tenant.gpu_count
    return tuple(evicted) if missing <= 0 else None


def price_to_win(machine: Machine, tenants: Sequence[Tenant], gpu_count: int) -> Decimal | None:
    """The lowest bid per GPU that gets ``gpu_count`` GPUs now; ``None`` when none does."""
    if machine.floor is None:
        return None
    missing = gpu_count - free_gpus(machine, tenants)
    price = machine.floor
    for tenant in _weakest_first(tenants):
        if missing <= 0:
            break
        assert tenant.bid is not None
        price = max(price, tenant.bid + BID_STEP)
        missing -= tenant.gpu_count
    return price if missing <= 0 else None


def _weakest_first(tenants: Sequence[Tenant]) -> list[Tenant]:
    spot = [(tenant.bid, -tenant.arrival, tenant) for tenant in tenants if tenant.bid is not None]
    return [tenant for _, _, tenant in sorted(spot, key=lambda entry: entry[:2])]
