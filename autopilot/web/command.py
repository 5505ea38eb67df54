"""``autopilot web``: the page, for as long as the command runs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from autopilot.cli.exits import Exit
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from autopilot.policy.guard import Limits


def web(*, ledger: str | None = None, port: int = 0, config: Path | None = None) -> int:
    """Show jobs, machines and money as a page in the browser, until SIGTERM or Ctrl-C.

    It reads the ledger alone and changes nothing, whether a daemon runs or not. It listens on 127.0.0.1 and lets in
    whoever has the link that it prints.

    Parameters
    ----------
    ledger
        A file, or postgresql://user@host/database; the one of the settings when left out, with their limits.
    port
        Port on 127.0.0.1; 0 takes a free one.
    config
        A configuration file, read after the system's and the user's own.
    """
    from autopilot.config.settings import load_settings
    from autopilot.ports.store import StoreUnavailable
    from autopilot.service.ledger_reader import NO_LIMITS
    from autopilot.service.wiring import limits_of
    from autopilot.telemetry.logging import configure_logging

    if not 0 <= port <= 65535:
        raise UserError(f"not a port: {port}", hint="a number from 0 to 65535; 0 takes a free one")
    settings = load_settings(config)
    configure_logging(settings.log.format, "warning", settings.secret_values())
    url = settings.ledger_url if ledger is None else ledger
    try:
        asyncio.run(_serve(url, limits_of(settings) if ledger is None else NO_LIMITS, port))
    except StoreUnavailable as problem:
        raise UserError(str(problem), hint="autopilot db check says more") from None
    return Exit.OK


async def _serve(url: str, limits: Limits, port: int) -> None:
    from autopilot.service.ledger_reader import open_reader
    from autopilot.store.urls import mask_password
    from autopilot.web.server import serving

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with open_reader(url, limits) as reader, serving(reader, port) as link:
        shown = f"shows {mask_password(url)} to whoever has this link, and changes nothing; Ctrl-C ends it"
        print(f"{link}\n{shown}", flush=True)
        await ended.wait()
