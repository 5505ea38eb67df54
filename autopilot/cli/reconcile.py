"""``autopilot reconcile``: the ledger beside the markets' own bills."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from autopilot.cli import money_views, periods
from autopilot.cli.client import Client
from autopilot.cli.exits import Exit
from autopilot.cli.output import console, print_json


def reconcile(*, month: str | None = None, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Compare our own figures with what the markets billed, instance by instance.

    Parameters
    ----------
    month
        A UTC month as YYYY-MM; the present one when left out.
    json
        Print the answer as JSON.
    """
    body = Client().get("/v1/reconcile", month=periods.month(month))
    if json:
        print_json(body)
        return Exit.OK
    out = console()
    for part in money_views.reconciliation(body):
        out.print(part)
    return Exit.OK
