"""Which daemon a client means: one of this machine, at its socket, or one elsewhere. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autopilot.config.login import check_daemon_url, read_login
from autopilot.config.paths import client_socket
from autopilot.domain.errors import UserError

URL_VARIABLE = "AUTOPILOT_URL"
"""The address of a daemon elsewhere; it goes before a login."""
CA_VARIABLE = "AUTOPILOT_CA_FILE"
TOKEN_VARIABLE = "AUTOPILOT_TOKEN"  # noqa: S105 - its name
"""If set, calls use that token, not the user at the socket, nor the token of the login."""
SOCKET_VARIABLE = "AUTOPILOT_API__SOCKET"


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    socket: Path | None
    """None: it is elsewhere, at ``url``."""
    url: str = ""
    ca_file: str = ""
    """Certificate of the authority that signed the daemon's; empty: those that this machine trusts."""
    token: str = ""
    """Empty: the caller is the user at the socket."""

    @property
    def name(self) -> str:
        """As it is said to the user."""
        return self.url or str(self.socket)


def find_daemon_address(environ: Mapping[str, str] = os.environ) -> DaemonAddress:
    """A variable goes before the login, and the login before the default socket. Raises ``UserError``."""
    token = read_token(environ.get(TOKEN_VARIABLE, ""))
    if url := environ.get(URL_VARIABLE, ""):
        return DaemonAddress(None, check_daemon_url(url), environ.get(CA_VARIABLE, ""), token)
    if not environ.get(SOCKET_VARIABLE) and (login := read_login(environ)) is not None:
        return DaemonAddress(None, login.url, login.ca_file, token or login.token)
    return DaemonAddress(client_socket(environ), token=token)


def read_token(raw: str) -> str:
    """A token as a header can hold it. Raises ``UserError``, which does not repeat it."""
    token = raw.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{TOKEN_VARIABLE} does not contain a token", hint="autopilot token create prints one")
    return token
