"""The daemon's client: JSON over HTTP, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.transport import Address, AnswerLost, NotRunning, TcpAddress, UnixAddress, find_daemon
from autopilot.clock import SystemClock
from autopilot.config.daemon_address import TOKEN_VARIABLE, read_token
from autopilot.ids import UlidIds
from autopilot.words import text

Json = dict[str, Any]

_EXIT_OF_STATUS = {
    400: Exit.USAGE,
    404: Exit.USAGE,
    413: Exit.USAGE,
    422: Exit.USAGE,
    401: Exit.REFUSED,
    402: Exit.REFUSED,
    403: Exit.REFUSED,
    421: Exit.REFUSED,
    429: Exit.UNREACHABLE,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""What the daemon's answer means for a script; any other error is a failed operation."""


_AGAIN_AFTER_S = (1.0, 3.0, 6.0)
"""Where the answer of a request was lost that acts once."""


class NotFound(CommandError):
    """The daemon knows no such thing."""


class JobIsDouble(CommandError):
    """A job that says the same is not over."""


class Client:
    """One connection per request. Methods raise ``CommandError``."""

    def __init__(
        self, socket_path: Path | None = None, timeout_s: float = 120, *, at: tuple[Address, str] | None = None
    ) -> None:
        """``socket_path``, or ``at``, an address and a token: of this daemon; else of the one that the user means."""
        if socket_path is not None:
            at = UnixAddress(socket_path), read_token(os.environ.get(TOKEN_VARIABLE, ""))
        self._address, self._token = at or find_daemon()
        self._timeout_s = timeout_s

    @property
    def socket_path(self) -> Path:
        """Of a daemon of this machine."""
        return Path(self._address.name)

    @property
    def base_url(self) -> str:
        """What addresses without a host, in its answers, are meant beneath; empty on a socket."""
        return self._address.name if isinstance(self._address, TcpAddress) else ""

    def context(self) -> Any:
        """How to open addresses beneath ``base_url``: what urllib takes for TLS, or None."""
        return self._address.tls() if isinstance(self._address, TcpAddress) else None

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
        return text.now_of(self.status())

    def status(self) -> Json:
        """How the daemon itself does."""
        return self.get("/v1/status")

    def _login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Json:
        connection = self._address.open(self._timeout_s)
        if headers is None:
            headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            self._send(connection, method, path, body, {"Accept": "application/json", **self._login(), **headers})
            response = connection.getresponse()
            status, raw = response.status, response.read()
        except TimeoutError:
            raise AnswerLost(
                Exit.UNREACHABLE,
                f"the daemon did not answer within {self._timeout_s:g} s",
                hint="look at its log: journalctl -u autopilot",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._address.explain(error) from None
        finally:
            connection.close()
        return _answer(status, raw)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> None:
        """A request that is refused before all of it is sent has its answer all the same."""
        try:
            connection.request(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:
                raise


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
    if body.get("reason") == "daemon_unavailable":
        raise AnswerLost(Exit.UNREACHABLE, str(body.get("detail")), hint=str(body.get("hint") or ""))
    if status >= 400:
        is_same, asks = (body.get("reason") == reason for reason in ("same_job_open", "confirm_first"))
        kind = JobIsDouble if is_same else NotFound if status == 404 else CommandError
        raise kind(
            Exit.USAGE if is_same else Exit.REFUSED if asks else _EXIT_OF_STATUS.get(status, Exit.FAILED),
            str(body.get("detail") or f"the daemon answered HTTP {status}"),
            hint=str(body.get("hint") or ""),
        )
    return body
