"""Switches that break, one by one, what is assumed of a market (its plug-in's facts)."""

from __future__ import annotations

from autopilot.markets.installed import claims_of
from autopilot_lab.sandbox.operations import BadRequest, Json


def set_claim(broken: set[str], market: str, wish: Json) -> list[str]:
    """Break the claim that ``wish`` names, or let it hold again; returns those that are broken now."""
    known = {claim.id for claim in claims_of(market) if claim.step is not None}
    claim = str(wish.get("id"))
    if claim not in known:
        raise BadRequest(f"unknown claim {claim!r}; one of {', '.join(sorted(known))}")
    if wish.get("holds", False):
        broken.discard(claim)
    else:
        broken.add(claim)
    return sorted(broken)
