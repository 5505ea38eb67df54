"""Who competes for a machine's GPUs, and at what price a newcomer would win them. Nothing here changes anything.

``tenants`` are the customer's live instances on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from autopilot_lab.sandbox.market.auction import Claim
from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.market.machines import Chunk, Machine
from autopilot_lab.sandbox.market.metering import to_decimal

PRICE_UNIT = Decimal("0.0001")
OUTBID_STEP = Decimal("0.001")


def claim_of(instance: Contract) -> Claim:
    gpu_ids = frozenset(instance.gpu_ids)
    return Claim(instance.key, gpu_ids, instance.auction_price_per_gpu, instance.holding, instance.arrival)


def claims_on(machine: Machine, tenants: Sequence[Contract]) -> list[Claim]:
    strangers = [
        Claim(other.id, frozenset(other.gpu_ids), other.price_per_gpu, other.holding, other.arrival)
        for other in machine.strangers.values()
    ]
    return strangers + [claim_of(instance) for instance in tenants if instance.wants_gpus]


def free_of_on_demand(machine: Machine, tenants: Sequence[Contract], chunk: Chunk) -> bool:
    """Whether no on-demand customer holds any of these GPUs."""
    holders = [claim for claim in claims_on(machine, tenants) if claim.incumbent and claim.price_per_gpu is None]
    return all(claim.gpu_ids.isdisjoint(chunk) for claim in holders)


def clearing_price(machine: Machine, tenants: Sequence[Contract], chunk: Chunk) -> Decimal:
    """The lowest bid ($/h for the chunk) that beats every bid which holds one of its GPUs now."""
    floor = machine.floor_of(chunk).quantize(PRICE_UNIT, ROUND_CEILING)
    held_at: list[Fraction] = [
        claim.price_per_gpu
        for claim in claims_on(machine, tenants)
        if claim.incumbent and claim.price_per_gpu is not None and not claim.gpu_ids.isdisjoint(chunk)
    ]
    if not held_at:
        return floor
    return max(floor, to_decimal(max(held_at) * len(chunk), PRICE_UNIT) + OUTBID_STEP)
