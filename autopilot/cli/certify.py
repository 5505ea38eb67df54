"""``autopilot certify``: prove on one small machine what is assumed of a market, and show what was found."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from autopilot.answers.certifications import Certification
from autopilot.cli import certify_views
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError
from autopilot.words import certificates

Flag = Parameter(negative="")
POLL_S = 5.0
FINAL = ("succeeded", "failed", "cancelled", "parked")


def certify(
    *words: str,
    budget: str | None = None,
    gpu: tuple[str, ...] = (),
    resume: Annotated[bool, Flag] = False,
    report: Path | None = None,
    plan_id: Annotated[str, Parameter(name="--plan")] = "",
    output: Output = FOR_PEOPLE,
) -> int:
    """Test what autopilot assumes about a market, with one small machine: autopilot certify vastai --budget "$1.00".

    It takes about an hour, and the market's bill arrives later: --resume shows it. "autopilot certify accept
    MARKET CLAIM" allows rentals although that claim does not hold. Exits with 1 while a claim that matters is
    broken and not accepted.

    Parameters
    ----------
    words
        The market; or accept, the market and the claim.
    budget
        Maximum cost, from $0.25 to $5.
    gpu
        An acceptable GPU, like RTX 3060; default: small ones. Can be repeated.
    resume
        Start nothing: show the newest certification, and follow it while it is running.
    report
        Write the report to this file, as Markdown without ids, for an issue.
    plan_id
        The plan that a person has confirmed, if the token needs one.
    output
    """
    client = JsonClient()
    if words[:1] == ("accept",):
        return _accept(client, words[1:])
    if len(words) != 1:
        raise UserError("which market? (autopilot certify MARKET)")
    path = f"/v1/markets/{quote(words[0], safe='')}/certification"
    if not resume:
        if budget is None:
            raise UserError("what is the maximum cost?", hint=f'autopilot certify {words[0]} --budget "$1.00"')
        client.post(path, {"budget": budget, "gpus": list(gpu)} | ({"plan": plan_id} if plan_id else {}))
    found = _follow(client, path, is_shown=output.is_for_people)
    if report is not None:
        _write(report, certify_views.write_markdown(found))
    if not output.is_for_people:
        output.print(found, "claims")
    else:
        for part in certify_views.report(found):
            console().print(part)
    return Exit.FAILED if found.certificate.broken else Exit.OK


def _accept(client: JsonClient, words: tuple[str, ...]) -> int:
    if len(words) != 2:
        raise UserError("which claim? (autopilot certify accept MARKET CLAIM)")
    market, claim = words
    client.post(f"/v1/markets/{quote(market, safe='')}/accept", {"claim": claim})
    print(f"accepted: machines can be rented on {market} although {claim} does not hold")
    return Exit.OK


def _follow(client: JsonClient, path: str, *, is_shown: bool) -> Certification:
    """Return the report once the machine's part is done; print each claim as soon as it is settled."""
    told: set[str] = set()
    while True:
        found = read(Certification, client.get(path))
        if found.certification is None:
            raise UserError(f"{found.market} was never certified", hint="omit --resume to start")
        for claim in found.claims if is_shown else ():
            if claim.at is not None and claim.id not in told:
                told.add(claim.id)
                print(certificates.line(claim), flush=True)
        if found.certification.status in FINAL:
            return found
        time.sleep(POLL_S)


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content)
    except OSError as problem:
        raise CommandError(Exit.FAILED, f"{path}: {problem.strerror}") from None
