"""``autopilot hosts``: what is remembered of machines, over all jobs; block and forgive them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from autopilot.answers.hosts import Host, HostAnswer, Hosts
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, table
from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError
from autopilot.words import text
from autopilot.words.hosts import cells

if TYPE_CHECKING:
    from rich.console import RenderableType

PATH = "/v1/hosts"
NOTHING = "nothing is remembered yet: the first machines teach it"
_DONE = {
    "block": "blocked: nothing new is rented there; a machine that runs there keeps running",
    "forgive": "forgiven: it counts like a machine that was never rented",
}


def hosts(
    action: Literal["ls", "block", "forgive"] = "ls",
    /,
    *words: str,
    provider: str | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """List what is remembered of machines, over all jobs; block or forgive them.

    What a machine has shown is priced when one is chosen: launches that came to nothing, slowness. It fades: after two
    days it counts half. On markets with pools one line is a kind of machine.

    Parameters
    ----------
    action
        ls lists them (the default); block rents nothing new there; forgive forgets its faults and its block.
    words
        With block and forgive: the market and the machine's ID, as the list shows them.
    provider
        With ls: only this market.
    """
    client = JsonClient()
    if action == "ls":
        if words:
            raise UserError(f"ls takes no names, not {words[0]!r}", hint="autopilot hosts --provider NAME")
        body = client.get(PATH, provider=provider)
        if output.is_for_people:
            console().print(render(read(Hosts, body).hosts))
        else:
            output.print(body, "hosts")
        return Exit.OK
    if len(words) != 2:
        raise UserError(f"which machine? (autopilot hosts {action} MARKET ID)")
    market, machine_id = words
    posted = client.post(f"{PATH}/{quote(market, safe='')}/{quote(machine_id, safe='')}/{action}", {})
    host = read(HostAnswer, posted).host
    if not output.is_for_people:
        output.print(Hosts(hosts=[host]), "hosts")
        return Exit.OK
    print(f"{text.plain(host.provider)} {text.plain(host.machine_id)} is {_DONE[action]}")
    return Exit.OK


def render(listed: list[Host]) -> RenderableType:
    if not listed:
        return NOTHING
    columns = ("MARKET", "ID", "GPU", "LAUNCHES", "FAILED", "LAST FAULT", "PACE", "LOADS IN", "LAST SEEN (UTC)", "")
    rows = [cells(each, lambda seen_at: f"{seen_at:%Y-%m-%d %H:%M}") for each in listed]
    return table(columns, rows, right=("LAUNCHES", "FAILED", "PACE", "LOADS IN"), whole=("MARKET", "ID"))
