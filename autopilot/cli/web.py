"""``autopilot web``: a link to the page of a daemon; or the page of a ledger alone, for as long as the command runs."""

from __future__ import annotations

import asyncio
import os
import pkgutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from autopilot.answers.pages import PageLink
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.client.errors import NotRunning
from autopilot.client.json_client import JsonClient
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from autopilot.policy.guard import Limits

SERVED_BY = "autopilot.web.server:serving"
"""Named by text: of the two faces neither imports the other."""


def web(
    *,
    ledger: str | None = None,
    port: int = 0,
    config: Path | None = None,
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
) -> int:
    """Print a link to the daemon's page, and open it in a browser if there is one.

    The link is for single use and expires in five minutes; the browser then stays signed in for twelve hours, with your
    rights. With --ledger it shows a ledger read-only, with or without a daemon, until SIGTERM or Ctrl-C.

    Parameters
    ----------
    ledger
        A file, or postgresql://user@host/database; "own" is the ledger of the settings, with their limits.
    port
        With --ledger: port on 127.0.0.1; 0 picks a free one.
    config
        With --ledger: a configuration file, read after the system's and your own.
    browser
        Open the link in a browser; otherwise it is only printed.
    """
    if ledger is None:
        if port or config is not None:
            raise UserError(
                "--port and --config go with --ledger", hint="the daemon's settings have the page's address"
            )
        return _show_link(browser)
    return _show_ledger(ledger, port, config)


def _show_link(opens_browser: bool) -> int:
    client = JsonClient()
    try:
        made = read(PageLink, client.post("/v1/page/link"))
    except NotRunning as problem:
        hint = f"{problem.hint}; autopilot web --ledger own shows what the ledger has"
        raise CommandError(Exit.UNREACHABLE, problem.message, hint=hint) from None
    link = made.url or client.base_url + made.path
    print(link, flush=True)
    print("single use, expires in five minutes", file=sys.stderr)
    if opens_browser and sys.stdout.isatty() and _has_screen():
        import webbrowser

        webbrowser.open(link)
    return Exit.OK


def _has_screen() -> bool:
    """Where there is none, a browser in the terminal would open."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _show_ledger(ledger: str, port: int, config: Path | None) -> int:
    from autopilot.config.settings import load_settings
    from autopilot.ports.store import StoreUnavailable
    from autopilot.service.ledger_reader import NO_LIMITS
    from autopilot.service.wiring import limits_of
    from autopilot.telemetry.logging import configure_logging

    if not 0 <= port <= 65535:
        raise UserError(f"not a port: {port}", hint="a number from 0 to 65535; 0 takes a free one")
    settings = load_settings(config)
    configure_logging(settings.log.format, "warning", settings.secret_values())
    is_own = ledger == "own"
    url = settings.ledger_url if is_own else ledger
    try:
        asyncio.run(_serve(url, limits_of(settings) if is_own else NO_LIMITS, port))
    except StoreUnavailable as problem:
        raise UserError(str(problem), hint="run autopilot db check for details") from None
    return Exit.OK


async def _serve(url: str, limits: Limits, port: int) -> None:
    from autopilot.service.ledger_reader import open_reader
    from autopilot.store.urls import mask_password

    serving = await asyncio.to_thread(pkgutil.resolve_name, SERVED_BY)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with open_reader(url, limits) as reader, serving(reader, port) as link:
        shown = f"shows {mask_password(url)} to anyone with this link, read-only; Ctrl-C ends it"
        print(f"{link}\n{shown}", flush=True)
        await ended.wait()
