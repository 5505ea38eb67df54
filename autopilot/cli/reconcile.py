"""``autopilot reconcile``: the ledger beside the markets' own bills."""

from __future__ import annotations

from autopilot.answers.money import Reconciliation
from autopilot.cli import money_views, periods
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient


def reconcile(*, month: str | None = None, output: Output = FOR_PEOPLE) -> int:
    """Compare the ledger with the markets' bills, machine by machine.

    Parameters
    ----------
    month
        A UTC month as YYYY-MM; default: the current one.
    """
    body = JsonClient().get("/v1/reconcile", month=periods.month(month))
    if not output.is_for_people:
        output.print(body, "rows")
        return Exit.OK
    out = console()
    for part in money_views.reconciliation(read(Reconciliation, body)):
        out.print(part)
    return Exit.OK
