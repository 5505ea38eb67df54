"""The daemon's client: JSON over its unix socket, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from autopilot.cli.exits import CommandError, Exit
from autopilot.clock import SystemClock
from autopilot.config.paths import client_socket
from autopilot.ids import UlidIds

Json = dict[str, Any]

_EXIT_OF_STATUS = {
    400: Exit.USAGE,
    404: Exit.USAGE,
    413: Exit.USAGE,
    422: Exit.USAGE,
    401: Exit.REFUSED,
    402: Exit.REFUSED,
    403: Exit.REFUSED,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""What the daemon's answer means for a script; any other error is a failed operation."""


TOKEN_VARIABLE = "AUTOPILOT_TOKEN"  # noqa: S105 - its name
"""Whoever sets it asks as that token, not as the user at the socket."""
_AGAIN_AFTER_S = (1.0, 3.0, 6.0)
"""Where the answer of a request was lost that acts once."""


class NotFound(CommandError):
    """The daemon knows no such thing."""


class JobIsDouble(CommandError):
    """A job that says the same is not over."""


class AnswerLost(CommandError):
    """The daemon may have done what it was asked to, or not."""


class NotRunning(CommandError):
    """Nobody answers."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Client:
    """One connection per request. Methods raise ``CommandError``."""

    def __init__(self, socket_path: Path | None = None, timeout_s: float = 120) -> None:
        self.socket_path = socket_path or client_socket()
        self._timeout_s = timeout_s
        self._token = read_token(os.environ.get(TOKEN_VARIABLE, ""))

    def get(self, path: str, **query: str | int | None) -> Json:
        given = {key: value for key, value in query.items() if value is not None}
        return self._request("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        return self._request("POST", path, json.dumps(body or {}).encode())

    def act_once(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """What may spend money. A lost answer is asked for again with the same key, which acts no second time."""
        sent = json.dumps(body or {}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": UlidIds(SystemClock()).new()}
        lost: CommandError | None = None
        for pause_s in (*_AGAIN_AFTER_S, None):
            try:
                return self._request(method, path, sent, headers)
            except (AnswerLost, NotRunning) as problem:
                if pause_s is None or (lost is None and isinstance(problem, NotRunning)):
                    raise lost or problem from None
                lost = lost or problem
            time.sleep(pause_s)
        raise AssertionError("the last try answers or raises")

    def put(self, path: str, body: Any, size: int) -> Json:
        """``body``: bytes, or something to read, ``size`` bytes of it."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return self._request("PUT", path, body, headers)

    def market_now(self) -> datetime:
        """The daemon's time, which is not ours where its clock is scaled."""
        return datetime.fromisoformat(self.get("/v1/status")["now"]).astimezone(UTC)

    def _login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Json:
        connection = _UnixConnection(self.socket_path, self._timeout_s)
        if headers is None:
            headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, path, body, {"Accept": "application/json", **self._login(), **headers})
            response = connection.getresponse()
            status, raw = response.status, response.read()
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning(
                Exit.UNREACHABLE,
                f"the daemon is not running at {self.socket_path}",
                hint="start it: autopilot serve, or systemctl start autopilot",
            ) from None
        except PermissionError:
            raise CommandError(
                Exit.REFUSED,
                f"you may not use the daemon at {self.socket_path}",
                hint="join its group: sudo usermod -aG autopilot $USER, then log in again",
            ) from None
        except TimeoutError:
            raise AnswerLost(
                Exit.UNREACHABLE,
                f"the daemon did not answer within {self._timeout_s:g} s",
                hint="look at its log: journalctl -u autopilot",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise AnswerLost(
                Exit.UNREACHABLE,
                f"the daemon at {self.socket_path} broke off: {str(error) or type(error).__name__}",
                hint="it may be restarting; try again",
            ) from None
        finally:
            connection.close()
        return _answer(status, raw)


def read_token(raw: str) -> str:
    """A token as a header can hold it. Raises ``CommandError``, which does not repeat it."""
    token = raw.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(Exit.USAGE, f"{TOKEN_VARIABLE} holds no token", hint="autopilot token create prints one")
    return token


def job_path(ref: str, *rest: str) -> str:
    """``/v1/jobs/<ref>/…`` for a job's id or name."""
    return "/".join(["/v1/jobs", quote(ref, safe=""), *rest])


def code_path(sha256: str, *rest: str) -> str:
    """``/v1/code/<sha256>/…`` for a copy of code."""
    return "/".join(["/v1/code", sha256, *rest])


def instance_path(ref: str) -> str:
    """``/v1/instances/<ref>`` for a lease's id, the market's id of an instance, or a label."""
    return f"/v1/instances/{quote(ref, safe='')}"


def _answer(status: int, raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandError(
            Exit.FAILED,
            f"the daemon's answer (HTTP {status}) cannot be read",
            hint="are the command line and the daemon of one version? see autopilot version",
        )
    if status >= 400:
        is_same = body.get("reason") == "same_job_open"
        kind = JobIsDouble if is_same else NotFound if status == 404 else CommandError
        raise kind(
            Exit.USAGE if is_same else _EXIT_OF_STATUS.get(status, Exit.FAILED),
            str(body.get("detail") or f"the daemon answered HTTP {status}"),
            hint=str(body.get("hint") or ""),
        )
    return body
