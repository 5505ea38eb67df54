"""A certificate and its claims in words."""

from __future__ import annotations

from autopilot.answers.certifications import Claim
from autopilot.answers.scalars import Scalar
from autopilot.answers.status import Certificate
from autopilot.domain.certificate import Lack
from autopilot.markets.facts import MarketFacts
from autopilot.markets.installed import facts_of
from autopilot.words import text

VERDICTS = {
    "held": "held",
    "broken": "BROKEN",
    "not_seen": "not seen",
    "waiting": "awaiting the bill",
    "open": "open",
}
LACKS = {
    "missing": "none",
    "expired": "expired",
    "ended": "ended early",
    "other_account": "for another account",
    "other_version": "for another version",
    "claim_broken": "stopped: a claim that matters is broken",
    "certifying_only": "the daemon rents only for certifications",
}
"""Why nothing new is rented, or what the certificate lacks, by its key in the API."""


def tell_command(market: str, lack: Lack | None = None) -> str:
    """What to type so that machines may be rented there, or may be longer. ``lack`` None: it is in force yet."""
    if lack is Lack.CERTIFYING_ONLY:
        return "autopilot serve"
    if lack is Lack.CLAIM_BROKEN:
        return f"autopilot certify {market} --resume"
    certify = (facts_of(market) or MarketFacts(market)).certify
    return f'autopilot certify {market} --budget "{certify.budget}"'


def line(claim: Claim) -> str:
    """One claim on one line."""
    seen = ", ".join(f"{text.words(name)} {show_seen(name, value)}" for name, value in claim.seen.items())
    told = f"{VERDICTS[claim.verdict]}: {claim.sentence.rstrip('.')}" + (f" ({seen})" if seen else "")
    return f"{told}. Consequence: {claim.changes}" if claim.verdict == "broken" else told


def show_seen(name: str, value: Scalar) -> str:
    """Amounts are decimal strings."""
    if isinstance(value, str) and name in ("floor", "bid", "asked", "shown", "needed"):
        return text.per_hour(value)
    if isinstance(value, str) and name in ("billed", "ledger", "expected"):
        return text.money(value)
    return text.plain(value)


def state(held: Certificate) -> str:
    """A market's certificate in a few words."""
    if held.status is None:
        return f"valid until {held.ends_at:%Y-%m-%d}"
    proved = f", proved by use until {held.proved_until:%Y-%m-%d}" if held.proved_until else ""
    return LACKS[held.status] + (f" ({held.ended_because})" if held.ended_because else "") + proved
