"""A plot of prices in a terminal: block characters, a row of eight levels each."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from autopilot.answers.prices import MarketPrices, Prices
from autopilot.words import text

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS = 6
LEVELS = " ▁▂▃▄▅▆▇█"
GAP = "·"
"""Nothing was seen then."""


def render(body: Prices) -> list[RenderableType]:
    from rich.text import Text

    gpu = text.plain(body.gpu)
    if not body.markets:
        return [f"no prices of {gpu} were recorded then; they are while an open job could use that GPU"]
    parts: list[RenderableType] = []
    for market in body.markets:
        steps = market.steps
        model = text.plain(market.gpu)
        parts.append(Text(f"{model} on {text.plain(market.provider)}, $ per GPU and hour", style="bold"))
        if market.low is not None:
            parts.append(Text(plot([step.low for step in steps])))
            parts.append(Text(_axis(body.since, body.until, len(steps))))
        for line in _figures(market):
            parts.append(Text(line))
        parts.append("")
    return parts[:-1]


def plot(values: list[Decimal | None], rows: int = ROWS) -> str:
    """Columns from zero up, the scale at the left; ``GAP`` in the lowest row where there is no value."""
    top = max((value for value in values if value is not None), default=Decimal(0)) or Decimal(1)
    heights = [None if value is None else max(1, round(value / top * rows * 8)) for value in values]
    lines = []
    for row in range(rows, 0, -1):
        base = (row - 1) * 8
        cells = [
            (GAP if row == 1 else " ") if height is None else LEVELS[max(0, min(8, height - base))]
            for height in heights
        ]
        scale = f"{top * row / rows:8.3f} │" if row in (rows, (rows + 1) // 2) else " " * 9 + "│"
        lines.append(scale + "".join(cells).rstrip())
    return "\n".join(lines)


def _axis(since: datetime, until: datetime, width: int) -> str:
    begin, end = text.clock_time(since)[:-3], text.clock_time(until)[:-3]
    return " " * 10 + begin + end.rjust(max(1, width - len(begin))) + " UTC"


def _figures(market: MarketPrices) -> list[str]:
    low, high, mean, last, on_demand = (
        text.money(price, 3) for price in (market.low, market.high, market.mean, market.last_low, market.on_demand)
    )
    count, machines = market.observations, market.machines
    of = "1 machine" if machines == 1 else f"{machines} machines"
    seen = f"{count} observation{'s' if count != 1 else ''} of {of}"
    if market.on_demand is not None:
        seen += f"; on demand from {on_demand}"
    if market.low is None:
        return ["no spot price was seen", seen]
    return [f"lowest winning bid: last {last}, {low} to {high}, mean {mean}", seen]
