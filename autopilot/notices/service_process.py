"""``python -m autopilot.notices.service_process``: sends one message through Apprise, read as JSON from stdin.

Ends with 0 once the service has taken it, else with 1 and the reason on stdout.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from typing import Any

from autopilot.addresses import AddressRefused, check_address
from autopilot.notices.message import SinkFailed
from autopilot.system import limit_own_memory

MOST_MEMORY_BYTES = 1 << 30
TLS_PORT = 443
"""A redirect or an address that leads elsewhere could be without TLS."""
_SHORTEST_SECRET = 6


def main() -> int:
    order = json.load(sys.stdin)
    limit_own_memory(MOST_MEMORY_BYTES)
    refused: list[str] = []
    sys.addaudithook(_hook(refused, local=order["local"]))
    try:
        _send(order["url"], order["title"], order["body"])
    except SinkFailed as problem:
        print(refused[0] if refused else problem)  # noqa: T201 - it is the answer
        return 1
    return 0


def _hook(refused: list[str], *, local: bool) -> Callable[[str, tuple[Any, ...]], None]:
    """Python raises this event for each connection of any library, with the address that is called."""

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "socket.connect" or not isinstance(arguments[1], tuple):
            return
        host, port = arguments[1][:2]
        try:
            check_address(str(host), local=local)
            if not local and port != TLS_PORT:
                raise AddressRefused(f"port {port} is not that of https: set local = true if it is meant")
        except AddressRefused as problem:
            refused.append(str(problem))
            raise

    return check


def _send(url: str, title: str, body: str) -> None:
    """Raises ``SinkFailed``."""
    import apprise
    import requests

    requests.models.REDIRECT_STATI = ()  # what an answer would lead to is not asked
    complaints: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("apprise").addHandler(handler)
    service = apprise.Apprise()
    if not service.add(url):
        raise SinkFailed("Apprise does not understand its address")
    if not service.notify(title=title, body=body):
        raise SinkFailed(_without_secrets(complaints[-1], url) if complaints else "it did not take the message")


def _without_secrets(text: str, url: str) -> str:
    for part in re.split(r"[/:@?&=]+", url):
        if len(part) >= _SHORTEST_SECRET:
            text = text.replace(part, "…")
    return text


if __name__ == "__main__":
    sys.exit(main())
