"""What a create asks for, and whether what came of it is that."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.mithril import mapping, wire
from autopilot.providers.user_data import startup_script

LONGEST_SCRIPT = 10_000
"""Characters of a startup script."""
LONGEST_LABEL = 64
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The same key brings the same bid: a create that is sent twice on the way makes one."""


@dataclass(frozen=True, slots=True)
class BidRequest:
    """A create as this market asks for it. ``limit``: $/h of the one machine."""

    name: str
    region: str
    type_id: str
    limit: Decimal
    script: str


def bid_request(request: CreateRequest) -> BidRequest:
    """Raises ``ValueError`` for what the market would turn down."""
    region, type_id = mapping.pool_of_offer(request.offer_id)
    script = startup_script(request.onstart, request.env)
    faults = {
        "nothing is rented here on demand": request.capacity_type is not CapacityType.SPOT,
        f"a name has 1 to {LONGEST_LABEL} characters": not 0 < len(request.label) <= LONGEST_LABEL,
        f"the startup script has {len(script)} characters; the market takes {LONGEST_SCRIPT}": len(script)
        > LONGEST_SCRIPT,
    }
    if present := [fault for fault, is_present in faults.items() if is_present]:
        raise ValueError("; ".join(present))
    return BidRequest(request.label, region, type_id, mapping.limit_for(request.bid), script)


def bid_body(wanted: BidRequest, project: str, ssh_key: str) -> dict[str, Any]:
    return {
        "project": project,
        "region": wanted.region,
        "instance_type": wanted.type_id,
        "limit_price": limit_text(wanted.limit),
        "instance_quantity": 1,
        "name": wanted.name,
        "launch_specification": {"ssh_keys": [ssh_key], "startup_script": wanted.script, "volumes": []},
    }


def limit_text(limit: Decimal) -> str:
    return f"${limit:.2f}"


def difference(made: wire.BidRow, wanted: BidRequest) -> str | None:
    """How the bid differs from what was asked for, or None when it does not; a lower limit is no difference."""
    if made.name != wanted.name:
        return f"asked for a bid called {wanted.name}, got {made.name!r}"
    if (made.region or wanted.region, made.type_id) != (wanted.region, wanted.type_id):
        return f"asked for {wanted.type_id} in {wanted.region}, got {made.type_id} in {made.region}"
    if made.quantity != 1 or made.limit > wanted.limit:
        return f"bid ${wanted.limit}/h for one machine, got ${made.limit}/h for {made.quantity}"
    return None
