"""``autopilot budget``: what may still be spent, and how long it lasts."""

from __future__ import annotations

from autopilot.answers.money import Budget
from autopilot.cli import money_views
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient


def budget(*, output: Output = FOR_PEOPLE) -> int:
    """Show limits, what is posted, accrued and reserved against them, the spend rate, and the runway."""
    body = JsonClient().get("/v1/budget")
    if not output.is_for_people:
        output.print(body, "jobs")
        return Exit.OK
    out = console()
    for part in money_views.budget(read(Budget, body)):
        out.print(part)
    return Exit.OK
