"""What a certification found, for the terminal and for an issue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopilot.cli import text
from autopilot.cli.client import Json
from autopilot.cli.output import facts, table

VERDICTS = {
    "held": "held",
    "broken": "BROKEN",
    "not_seen": "not seen",
    "waiting": "waits for the bill",
    "open": "open",
}
LACKS = {
    "missing": "none",
    "expired": "expired",
    "ended": "ended early",
    "other_account": "of another account",
    "other_version": "of another version",
    "claim_broken": "stopped: a claim that matters is broken",
    "certifying_only": "the daemon rents for certifications alone",
}
"""Why nothing new is rented, or what the certificate lacks, by its key in the API."""


def line(claim: Json) -> str:
    """One claim on one line."""
    seen = ", ".join(f"{text.words(name)} {_show(name, value)}" for name, value in claim["seen"].items())
    told = f"{VERDICTS[claim['verdict']]}: {claim['sentence'].rstrip('.')}" + (f" ({seen})" if seen else "")
    return f"{told}. It follows: {claim['changes']}" if claim["verdict"] == "broken" else told


def _show(name: str, value: Any) -> str:
    if name in ("floor", "bid", "asked", "shown", "needed") and value is not None:
        return text.per_hour(value)
    return text.money(value) if name in ("billed", "ledger", "expected") else text.plain(value)


def state(held: Json) -> str:
    """A market's certificate in a few words."""
    if held["status"] is None:
        return f"in force until {str(held['ends_at'])[:10]}"
    return LACKS[held["status"]] + (f" ({held['ended_because']})" if held["ended_because"] else "")


def report(body: Json) -> Iterator[Any]:
    rows = [(claim["id"], VERDICTS[claim["verdict"]], _note(claim)) for claim in body["claims"]]
    yield table(["CLAIM", "VERDICT", ""], rows, whole=["CLAIM", "VERDICT"])
    yield facts(
        [
            ("certificate", state(body["certificate"])),
            ("cost", f"{_dollars(body['ledger'])} by the ledger, {_dollars(body['billed'])} by the market's bill"),
            ("budget", _dollars(body["budget"])),
            *_next(body),
        ]
    )


def _note(claim: Json) -> str:
    if claim["verdict"] != "broken":
        return ""
    is_accepted = " (accepted)" if claim["accepted_at"] else ""
    return f"{claim['changes']}{is_accepted}"


def _next(body: Json) -> Iterator[tuple[str, str]]:
    market = body["market"]
    for claim in body["certificate"]["broken"]:
        yield "stopped by", f"{claim}: autopilot certify accept {market} {claim} rents there all the same"
    if any(claim["verdict"] == "waiting" for claim in body["claims"]):
        yield "next", f"the bill may take a day: autopilot certify {market} --resume"


def _dollars(amount: str | None) -> str:
    return "nothing yet" if amount is None else text.money(amount)


def write_markdown(body: Json) -> str:
    """For an issue: no id of a machine, an account or a certification stands in it."""
    rows = "".join(
        f"| `{claim['id']}` | {VERDICTS[claim['verdict']]} | {claim['sentence']} | {_seen(claim)} |\n"
        for claim in body["claims"]
    )
    cost = f"{_dollars(body['ledger'])} by the ledger, {_dollars(body['billed'])} by the market's bill"
    version = body["certificate"]["version"] or "-"
    return (
        f"# Certification of {body['market']}\n\n"
        f"autopilot {version}. Certificate: {state(body['certificate'])}. Cost: {cost}.\n\n"
        f"| Claim | Verdict | What is assumed | What was seen |\n|---|---|---|---|\n{rows}"
    )


def _seen(claim: Json) -> str:
    return "; ".join(f"{text.words(name)}: {_show(name, value)}" for name, value in claim["seen"].items()) or "-"
