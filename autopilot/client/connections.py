"""How a daemon is reached: a unix socket here, or an address elsewhere. Standard library only."""

from __future__ import annotations

import errno
import http.client
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from autopilot.client.errors import AnswerLost, NoAccess, NotRunning, TimedOut, Unreachable
from autopilot.config.daemon_address import CA_VARIABLE, DaemonAddress
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    import ssl


def open_connection(address: DaemonAddress, timeout_s: float) -> http.client.HTTPConnection:
    """One that is made with its first request. Raises ``UserError``."""
    if address.socket is not None:
        return _UnixConnection(address.socket, timeout_s)
    parts = urlsplit(address.url)
    assert parts.hostname is not None, "it was checked"
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=make_tls(address))


def make_tls(address: DaemonAddress) -> ssl.SSLContext | None:
    """None for an address without TLS. Raises ``UserError``."""
    if not address.url.startswith("https:"):
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=address.ca_file or None)
    except OSError as error:
        reason = f"{address.ca_file} is no certificate of an authority: {error.strerror or error}"
        raise UserError(reason) from None


def make_login(address: DaemonAddress) -> dict[str, str]:
    """The header that says who asks; none for the user at the socket."""
    return {"Authorization": f"Bearer {address.token}"} if address.token else {}


def explain(address: DaemonAddress, problem: Exception, timeout_s: float) -> Unreachable:
    """What kept a request from being answered."""
    if isinstance(problem, TimeoutError):
        hint = "look at its log: journalctl -u autopilot"
        return TimedOut(f"the daemon did not answer within {timeout_s:g} s", hint=hint)
    if address.socket is not None:
        return _explain_socket(address.name, problem)
    return _explain_tcp(address.name, problem)


def _explain_socket(name: str, problem: Exception) -> Unreachable:
    match problem:
        case FileNotFoundError() | ConnectionRefusedError():
            hint = "start it: autopilot serve, or systemctl start autopilot"
            return NotRunning(f"the daemon is not running at {name}", hint=hint)
        case PermissionError():
            hint = "join its group: sudo usermod -aG autopilot $USER, then log in again"
            return NoAccess(f"you may not use the daemon at {name}", hint=hint)
    return _tell_broken_off(name, problem)


def _explain_tcp(name: str, problem: Exception) -> Unreachable:
    import ssl

    match problem:
        case ssl.SSLCertVerificationError():
            reason = f"the certificate of {name} is not trusted: {problem.verify_message}"
            hint = f"name its authority: autopilot login {name} --ca-file FILE, or {CA_VARIABLE}"
            return NoAccess(reason, hint=hint)
        case ssl.SSLError():
            reason = f"{name} has a TLS problem: {problem.reason or problem}"
            return Unreachable(reason, hint="is the port that of http.listen?")
        case ConnectionRefusedError() | socket.gaierror():
            # asyncio puts words of its own in the place of the system's
            why = problem.strerror if isinstance(problem, socket.gaierror) else os.strerror(errno.ECONNREFUSED)
            hint = "is the address that of http.listen there?"
            return NotRunning(f"no daemon answers at {name}: {why}", hint=hint)
    return _tell_broken_off(name, problem)


def _tell_broken_off(name: str, problem: Exception) -> AnswerLost:
    reason = str(problem) or type(problem).__name__
    return AnswerLost(f"the daemon at {name} broke off: {reason}", hint="it may be restarting; try again")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
