"""What a certification found, for the terminal and for an issue."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from autopilot.answers.certifications import Certification, Claim
from autopilot.cli.output import facts, table
from autopilot.words import certificates, text
from autopilot.words.certificates import VERDICTS


def report(body: Certification) -> Iterator[Any]:
    rows = [(claim.id, VERDICTS[claim.verdict], _note(claim)) for claim in body.claims]
    yield table(["CLAIM", "VERDICT", ""], rows, whole=["CLAIM", "VERDICT"])
    yield facts(
        [
            ("certificate", certificates.state(body.certificate)),
            ("cost", f"{_dollars(body.ledger)} by the ledger, {_dollars(body.billed)} by the market's bill"),
            ("budget", _dollars(body.budget)),
            *_next(body),
        ]
    )


def _note(claim: Claim) -> str:
    if claim.verdict != "broken":
        return ""
    is_accepted = " (accepted)" if claim.accepted_at else ""
    return f"{claim.changes}{is_accepted}"


def _next(body: Certification) -> Iterator[tuple[str, str]]:
    market = body.market
    for claim in body.certificate.broken:
        yield "stopped by", f"{claim}: autopilot certify accept {market} {claim} rents there all the same"
    if any(claim.verdict == "waiting" for claim in body.claims):
        yield "next", f"the bill may take a day: autopilot certify {market} --resume"


def _dollars(amount: Decimal | None) -> str:
    return "nothing yet" if amount is None else text.money(amount)


def write_markdown(body: Certification) -> str:
    """For an issue: without ids of machines, accounts or certifications."""
    rows = "".join(
        f"| `{claim.id}` | {VERDICTS[claim.verdict]} | {claim.sentence} | {_seen(claim)} |\n" for claim in body.claims
    )
    cost = f"{_dollars(body.ledger)} by the ledger, {_dollars(body.billed)} by the market's bill"
    version = body.certificate.version or "-"
    return (
        f"# Certification of {body.market}\n\n"
        f"autopilot {version}. Certificate: {certificates.state(body.certificate)}. Cost: {cost}.\n\n"
        f"| Claim | Verdict | What is assumed | What was seen |\n|---|---|---|---|\n{rows}"
    )


def _seen(claim: Claim) -> str:
    return (
        "; ".join(f"{text.words(name)}: {certificates.show_seen(name, value)}" for name, value in claim.seen.items())
        or "-"
    )
