"""What is assumed of a market and was never seen on a live account: read out of the list that its plug-in states.

The tables of docs/providers are written from these lists, ``autopilot certify`` settles those that name a step, and the
sandbox has a switch that breaks each of these.
"""

from __future__ import annotations

from collections.abc import Iterable

from autopilot.certify.claim import HOW, MarketClaim, Step


def settled_by(claims: Iterable[MarketClaim], step: Step) -> tuple[str, ...]:
    """Ids of the claims that the step settles."""
    return tuple(claim.id for claim in claims if claim.step is step)


def weighty(claims: Iterable[MarketClaim]) -> frozenset[str]:
    """Ids of the claims that matter to money or to ending machines."""
    return frozenset(claim.id for claim in claims if claim.matters)


_HEAD = "| Claim | Source | Tested here | How `certify` settles it | Where it does not hold |\n|---|---|---|---|---|\n"


def table(claims: Iterable[MarketClaim]) -> str:
    """What the market's page shows of them."""
    return _HEAD + "".join(map(_row, claims))


def _row(claim: MarketClaim) -> str:
    source = f"{claim.source}, {claim.date}; confidence {claim.confidence}"
    changes = claim.changes + ("; **stops the market**" if claim.matters else "")
    settled = HOW[claim.step] if claim.step else "open"
    return f"| `{claim.id}`: {claim.sentence} | {source} | {claim.tested_by} | {settled} | {changes} |\n"
