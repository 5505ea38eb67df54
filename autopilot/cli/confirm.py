"""``autopilot confirm``: a person's word for what a token may not do by itself."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter

from autopilot.answers.tokens import WaitingPlan, WaitingPlans
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, facts, table
from autopilot.client.json_client import JsonClient
from autopilot.words import text


def confirm(
    plan: str | None = None,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """Confirm a plan of a token that needs a person's approval, or list pending plans. A plan expires after 10 minutes.

    Parameters
    ----------
    plan
        Id of the plan; default: list all pending plans.
    yes
        Skip the prompt.
    """
    client = JsonClient()
    body = client.get("/v1/plans")
    plans = read(WaitingPlans, body).plans
    if plan is None:
        if not output.is_for_people:
            output.print(body, "plans")
        else:
            console().print(_list(plans) if plans else "no plan waits")
        return Exit.OK
    found = next((each for each in plans if each.id == plan), None)
    if found is not None and not yes:
        _ask(found)
    answer = client.post(f"/v1/plans/{quote(plan, safe='')}/confirm")
    if not output.is_for_people:
        output.print(answer)
    else:
        print(f"confirmed {text.plain(plan)}: it can be used once, within 10 minutes of its making")
    return Exit.OK


def _ask(waiting: WaitingPlan) -> None:
    """Raises ``CommandError`` without a confirmation."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(Exit.USAGE, "no terminal to prompt on", hint="--yes confirms it without a question")
    console().print(facts(_lines(waiting)))
    if input("Confirm it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError(Exit.USAGE, "nothing was confirmed")


def _lines(waiting: WaitingPlan) -> list[tuple[str, str]]:
    return [
        ("token", str(-waiting.owner)),
        ("asks to", text.plain(waiting.what)),
        ("job", text.plain(waiting.name)),
        ("image", text.plain(waiting.image)),
        ("run", text.plain(waiting.run)),
        ("budget", _money(waiting.budget)),
        ("at most an hour", _money(waiting.max_rate)),
    ]


def _list(plans: list[WaitingPlan]) -> Any:
    rows = [
        (
            text.plain(each.id),
            str(-each.owner),
            text.plain(each.what),
            text.plain(each.name),
            _money(each.budget),
            "confirmed" if each.is_confirmed else "waits",
        )
        for each in plans
    ]
    return table(("PLAN", "TOKEN", "ASKS TO", "JOB", "BUDGET", "STATUS"), rows, right=("TOKEN", "BUDGET"))


def _money(amount: Decimal | None) -> str:
    return "no limit" if amount is None else text.money(amount)
