"""``autopilot notify``: whether notices arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, table
from autopilot.words import text


def notify(
    action: Literal["test"],
    /,
    *sinks: str,
    config: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Send a test message to each configured sink, without the daemon, and show whether it was accepted.

    Exits with 1 if one was not. Run it as the daemon's user, who can read the sinks' keys.

    Parameters
    ----------
    action
        test sends the message.
    sinks
        Names of sinks; default: all.
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.service.notices import try_sinks

    tried = try_sinks(config, sinks)
    if output.is_for_people:
        rows = [(name, text.plain(place), text.plain(problem or "taken")) for name, place, problem in tried]
        console().print(table(("SINK", "LEADS TO", "OUTCOME"), rows, whole=("SINK",)))
    else:
        output.print(
            {"sinks": [{"name": name, "place": place, "problem": problem} for name, place, problem in tried]}, "sinks"
        )
    return Exit.FAILED if any(problem for _, _, problem in tried) else Exit.OK
