"""Where the daemon is, and how it is reached: a unix socket here, or an address elsewhere. Standard library only."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from autopilot.cli.exits import CommandError, Exit
from autopilot.config.daemon_address import CA_VARIABLE, find_daemon_address

if TYPE_CHECKING:
    import ssl


class AnswerLost(CommandError):
    """The daemon may have done what it was asked to, or not."""


class NotRunning(CommandError):
    """No daemon answers."""


class Address(Protocol):
    @property
    def name(self) -> str:
        """As it is said to the user."""
        ...

    def open(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is made with its first request. Raises ``CommandError``."""
        ...

    def explain(self, problem: Exception) -> CommandError:
        """What kept a request from being answered."""
        ...


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def open(self, timeout_s: float) -> http.client.HTTPConnection:
        return _UnixConnection(self.path, timeout_s)

    def explain(self, problem: Exception) -> CommandError:
        match problem:
            case FileNotFoundError() | ConnectionRefusedError():
                hint = "start it: autopilot serve, or systemctl start autopilot"
                return NotRunning(Exit.UNREACHABLE, f"the daemon is not running at {self.name}", hint=hint)
            case PermissionError():
                hint = "join its group: sudo usermod -aG autopilot $USER, then log in again"
                return CommandError(Exit.REFUSED, f"you may not use the daemon at {self.name}", hint=hint)
        return _broke_off(self.name, problem)


@dataclass(frozen=True, slots=True)
class TcpAddress:
    url: str
    ca_file: str = ""

    @property
    def name(self) -> str:
        return self.url

    def open(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None, "it was checked"
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=self.tls())

    def tls(self) -> ssl.SSLContext | None:
        """None for an address without TLS. Raises ``CommandError``."""
        if self.url.startswith("http:"):
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            reason = f"{self.ca_file} is no certificate of an authority: {error.strerror or error}"
            raise CommandError(Exit.USAGE, reason) from None

    def explain(self, problem: Exception) -> CommandError:
        import ssl

        match problem:
            case ssl.SSLCertVerificationError():
                reason = f"the certificate of {self.name} is not trusted: {problem.verify_message}"
                hint = f"name its authority: autopilot login {self.name} --ca-file FILE, or {CA_VARIABLE}"
                return CommandError(Exit.REFUSED, reason, hint=hint)
            case ssl.SSLError():
                reason = f"{self.name} has a TLS problem: {problem.reason or problem}"
                return CommandError(Exit.UNREACHABLE, reason, hint="is the port that of http.listen?")
            case ConnectionRefusedError() | socket.gaierror():
                reason = f"no daemon answers at {self.name}: {problem.strerror}"
                return NotRunning(Exit.UNREACHABLE, reason, hint="is the address that of http.listen there?")
        return _broke_off(self.name, problem)


def find_daemon(environ: Mapping[str, str] = os.environ) -> tuple[Address, str]:
    """(where it is, the token to ask with; empty: as the user at the socket). Raises ``UserError``."""
    found = find_daemon_address(environ)
    if found.socket is None:
        return TcpAddress(found.url, found.ca_file), found.token
    return UnixAddress(found.socket), found.token


def _broke_off(name: str, problem: Exception) -> AnswerLost:
    reason = str(problem) or type(problem).__name__
    return AnswerLost(
        Exit.UNREACHABLE, f"the daemon at {name} broke off: {reason}", hint="it may be restarting; try again"
    )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
