"""``autopilot budget``: what may still be spent, and how long it lasts."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from autopilot.cli import money_views
from autopilot.cli.client import Client
from autopilot.cli.exits import Exit
from autopilot.cli.output import console, print_json


def budget(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show limits; what is posted, accrued and held back against them; what burns now, and how long it lasts.

    Parameters
    ----------
    json
        Print the answer as JSON.
    """
    body = Client().get("/v1/budget")
    if json:
        print_json(body)
        return Exit.OK
    out = console()
    for part in money_views.budget(body):
        out.print(part)
    return Exit.OK
