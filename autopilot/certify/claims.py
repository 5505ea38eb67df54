"""The one list of what is assumed of the markets and was never seen on a live account.

The tables of docs/providers are written from it, ``autopilot certify`` settles those that name a step, and the sandbox
has a switch that breaks each of these.
"""

from __future__ import annotations

from autopilot.certify.claim import HOW, MarketClaim, Step
from autopilot.certify.mithril import MITHRIL
from autopilot.certify.nebius import NEBIUS
from autopilot.certify.runpod import RUNPOD
from autopilot.certify.vastai import VASTAI

CLAIMS = (*VASTAI, *RUNPOD, *MITHRIL, *NEBIUS)


def claims_of(market: str) -> tuple[MarketClaim, ...]:
    return tuple(claim for claim in CLAIMS if claim.market == market)


def settled_by(market: str, step: Step) -> tuple[str, ...]:
    """Ids of the claims that the step settles."""
    return tuple(claim.id for claim in claims_of(market) if claim.step is step)


def weighty(market: str) -> frozenset[str]:
    """Ids of the claims that matter to money or to ending machines."""
    return frozenset(claim.id for claim in claims_of(market) if claim.matters)


_HEAD = "| Claim | Source | Tested here | How `certify` settles it | Where it does not hold |\n|---|---|---|---|---|\n"


def table(market: str) -> str:
    """What the market's page shows of them."""
    return _HEAD + "".join(map(_row, claims_of(market)))


def _row(claim: MarketClaim) -> str:
    source = f"{claim.source}, {claim.date}; confidence {claim.confidence}"
    changes = claim.changes + ("; **stops the market**" if claim.matters else "")
    settled = HOW[claim.step] if claim.step else "open"
    return f"| `{claim.id}`: {claim.sentence} | {source} | {claim.tested_by} | {settled} | {changes} |\n"
