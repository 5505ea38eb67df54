"""The tunnels as a child of the daemon, where its machines are dialled; and what a unit of their own serves."""

from __future__ import annotations

from autopilot.blobs.place import STARTED, MailboxPlace
from autopilot.config.settings import Settings
from autopilot.service.child import Child
from autopilot.tunnels.process import TunnelsConfig


def tunnels_config(settings: Settings, place: MailboxPlace, token: str | None) -> TunnelsConfig:
    host, _, port = settings.blobs.listen.rpartition(":")
    return TunnelsConfig(place, (host, int(port)), token)


class TunnelsChild(Child):
    def __init__(self, settings: Settings, place: MailboxPlace, token: str) -> None:
        host, port = tunnels_config(settings, place, token).listener
        arguments = ["--place", str(place.root), "--token", token, "--listener", host, str(port)]
        arguments += ["--log-format", settings.log.format, "--log-level", settings.log.level]
        super().__init__("tunnels", "autopilot.tunnels", arguments, (STARTED,))
