"""``autopilot drift``: how the markets' answers differ from what this version was written for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from autopilot.answers.certifications import Drift, Drifts
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, table
from autopilot.client.json_client import JsonClient
from autopilot.words import text

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTHING = "no differences: the markets answer as they did when this version was written"
_CHANGES = {"missing": "is missing", "new": "is new", "type": "has another type", "value": "has an unknown value"}


def drift(*, provider: str | None = None, output: Output = FOR_PEOPLE) -> int:
    """List how the markets' answers differ from the ones this version was written for.

    Fields that autopilot uses come first, then the others it recognizes. No value from your account is stored.

    Parameters
    ----------
    provider
        Only this market.
    """
    body = JsonClient().get("/v1/drift", provider=provider)
    if output.is_for_people:
        console().print(render(read(Drifts, body).drifts))
    else:
        output.print(body, "drifts")
    return Exit.OK


def render(drifts: list[Drift]) -> RenderableType:
    if not drifts:
        return NOTHING
    columns = ("MARKET", "ANSWER", "FIELD", "DIFFERENCE", "READ", "ROWS", "SINCE (UTC)", "LAST SEEN (UTC)")
    return table(columns, [_row(each) for each in drifts], right=("ROWS",), whole=("MARKET",))


def _row(drift: Drift) -> tuple[str, ...]:
    change = _CHANGES.get(drift.kind, drift.kind)
    shown = f"{change}: {text.plain(drift.sample)}" if drift.sample else change
    return (
        text.plain(drift.provider),
        text.plain(drift.answer),
        text.plain(drift.field),
        shown,
        "for money" if drift.is_money else "yes" if drift.is_read else "no",
        str(drift.count),
        _minute(drift.first_seen_at),
        _minute(drift.last_seen_at),
    )


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"
