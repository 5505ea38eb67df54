"""Commands about the market: offers."""

from __future__ import annotations

from typing import Any

from autopilot.answers.status import Offers
from autopilot.cli import views
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile, read_job_file
from autopilot.cli.host_options import ANY_HOST, HostOptions
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.json_client import JsonClient
from autopilot.config.draft import Draft, Value
from autopilot.domain.errors import UserError
from autopilot.words import text


def offers(
    file: JobFile | None = None,
    /,
    *,
    gpu: str | None = None,
    host: HostOptions = ANY_HOST,
    output: Output = FOR_PEOPLE,
) -> int:
    """List what can be rented now, cheapest first, and why an offer cannot be used.

    Parameters
    ----------
    file
        A job file, or - for standard input: list offers for that job.
    gpu
        GPU model and count, like 4090:1 or "4090 | A100 80GB:2", instead of a job file.
    """
    body = JsonClient().post("/v1/offers", _read_query(file, gpu, host.to_keys()))
    found = read(Offers, body)
    if not output.is_for_people:
        output.print(body, "offers")
    else:
        out = console()
        out.print(views.offer_list(found.offers) if found.offers else "no offers")
        for note in found.notes:
            out.print(text.plain(note))
        for market in found.markets:
            if not market.known:
                out.print(f"{text.plain(market.name)} is unknown: {text.plain(market.reason)}")
            elif market.spot_note:
                kind = "spot" if market.spot else "no spot"
                out.print(f"{text.plain(market.name)}: {kind}, {text.plain(market.spot_note)}")
    if found.markets and not any(market.known for market in found.markets):
        raise CommandError(Exit.UNREACHABLE, "no market could be read", hint="run autopilot doctor")
    return Exit.OK


def _read_query(file: JobFile | None, gpu: str | None, of_host: dict[str, Value]) -> dict[str, Any]:
    if (file is None) == (gpu is None):
        raise UserError("offers for what?", hint="name a job file, or --gpu 4090:1")
    if file is not None:
        if of_host:
            option = next(iter(of_host)).replace("_", "-")
            raise UserError(f"--{option} is for --gpu", hint="a job file says it in [resources]")
        toml, source = read_job_file(file)
        return {"toml": toml, "source": source}
    if of_host:
        return {"toml": Draft(name="offers", run="true", gpu=gpu or "", host=of_host).write(), "source": "options"}
    return {"gpu": gpu}
