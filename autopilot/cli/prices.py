"""``autopilot prices``: what a GPU has cost, as a plot."""

from __future__ import annotations

import shutil
import sys

from autopilot.answers.prices import Prices
from autopilot.cli import price_plot
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient

MARGIN = 10
"""Columns beside the plot, for its scale."""


def prices(
    gpu: str,
    /,
    *,
    since: str = "7d",
    until: str | None = None,
    provider: str | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Plot a GPU's hourly price on each market, from the prices recorded while jobs could use it.

    Parameters
    ----------
    gpu
        GPU model, like 4090, rtx_4090 or "A100 80GB".
    since
        Start: how long ago, like 7d or 12h, or an instant like 2026-11-01T00:00:00Z.
    until
        End, in the same form; default: now.
    provider
        Only this market.
    """
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    columns = max(20, min(width, 120) - MARGIN)
    body = JsonClient().get("/v1/prices", gpu=gpu, since=since, until=until, provider=provider, steps=columns)
    if not output.is_for_people:
        output.print(body, "markets")
        return Exit.OK
    out = console()
    for part in price_plot.render(read(Prices, body)):
        out.print(part)
    return Exit.OK
