"""Telling systemd how the service is: READY, STATUS, WATCHDOG, STOPPING. Silent when not run by systemd."""

from __future__ import annotations

import os
import socket


def notify(*lines: str) -> None:
    """Send these lines (``READY=1``) as one message to ``$NOTIFY_SOCKET``; never fails, never waits.

    A message that finds the manager's queue full is lost, so what must arrive is said again later.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # the daemon must go on while the manager hangs: its machines' permits run out
        try:
            sock.connect(address)
            sock.send("\n".join(lines).encode())
        except OSError:
            return
