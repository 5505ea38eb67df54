"""What dials rented machines, where they cannot reach the mailbox: a process of its own, and what the two tell each
other."""

from __future__ import annotations

from contextlib import AsyncExitStack

from autopilot.blobs.place import MailboxPlace
from autopilot.clock import SystemClock
from autopilot.config.settings import Settings
from autopilot.ports.tunnels import Tunnels
from autopilot.service.child import ChildProcess
from autopilot.tunnels.board import TunnelBoard
from autopilot.tunnels.place import TunnelsPlace

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared


class TunnelsChild(ChildProcess):
    def __init__(self, settings: Settings, place: TunnelsPlace) -> None:
        arguments = ["--place", str(place.root)]
        arguments += ["--log-format", settings.log.format, "--log-level", settings.log.level]
        super().__init__("tunnels", "autopilot.tunnels", arguments, ())


async def open_tunnels(settings: Settings, mailbox: MailboxPlace, stack: AsyncExitStack) -> Tunnels | None:
    """None where machines reach the mailbox by themselves. Raises ``UserError``, ``OSError``."""
    if not settings.is_over_ssh:
        return None
    host, _, port = settings.blobs.listen.rpartition(":")
    place = TunnelsPlace(mailbox.tunnels)
    target = f"{'127.0.0.1' if host in _EVERYWHERE else host}:{int(port) or mailbox.port()}"
    board = TunnelBoard(place, target, SystemClock())
    if settings.blobs.own_listener:
        await stack.enter_async_context(TunnelsChild(settings, place).kept_running())
    return board
