"""Claims that no step of its own settles: what the market answers to all of a certification's calls does."""

from __future__ import annotations

from autopilot.certify.run import Run
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict
from autopilot.domain.remark import RemarkKind

WATCHED = {
    "refusals-are-known": RemarkKind.UNKNOWN_WORDS,
    "restricted-key-suffices": RemarkKind.NO_RIGHTS,
    "graphql-limits": RemarkKind.RATE_LIMITED,
    "request-pace": RemarkKind.RATE_LIMITED,
    "probe-is-a-request": RemarkKind.PROBE_DIFFERS,
}
"""By claim: the remark that breaks it."""


def find_broken(run: Run) -> tuple[ClaimFinding, ...]:
    """Those that are broken by what the market has said, and were not yet found so."""
    said = {remark.kind: remark for remark in reversed(run.remarks)}
    return tuple(
        run.find(claim, ClaimVerdict.BROKEN, ("at", said[kind].at.isoformat()), ("words", said[kind].words))
        for claim, kind in WATCHED.items()
        if kind in said and claim not in run.findings
    )


def find_held(run: Run) -> tuple[ClaimFinding, ...]:
    """At the end: those of which there was something to see, and nothing against them."""
    was_on_spot = any(lease.is_spot for lease in run.leases)
    seen = {
        "refusals-are-known": run.has_held("losing-bid-refused"),
        "restricted-key-suffices": any(lease.agent.seen_at for lease in run.leases),
        "graphql-limits": was_on_spot,
        "request-pace": run.has_held("list-shows-label"),
        "probe-is-a-request": was_on_spot,
    }
    return tuple(run.find(claim, ClaimVerdict.HELD) for claim in WATCHED if seen[claim] and claim not in run.findings)
