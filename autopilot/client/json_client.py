"""Requests to the daemon whose answers are JSON, with nothing but the standard library: it starts in no time."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from autopilot.client.answer import MOST_BYTES, Json, check_size, read_answer
from autopilot.client.connections import explain, make_login, make_tls, open_connection
from autopilot.client.errors import Unreachable
from autopilot.client.tries import Tries, make_key_header
from autopilot.config.daemon_address import DaemonAddress, find_daemon_address

if TYPE_CHECKING:
    import ssl


class JsonClient:
    """One connection per request. Methods raise ``ApiError``, ``Unreachable``."""

    def __init__(self, address: DaemonAddress | None = None, timeout_s: float = 120) -> None:
        """``address``: by default the one that the user means. Raises ``UserError``."""
        self.address = find_daemon_address() if address is None else address
        self._timeout_s = timeout_s

    @property
    def socket_path(self) -> Path:
        """The socket of a daemon on this machine."""
        assert self.address.socket is not None, "it is not elsewhere"
        return self.address.socket

    @property
    def base_url(self) -> str:
        """What addresses without a host, in its answers, are meant beneath; empty on a socket."""
        return self.address.url

    def make_tls(self) -> ssl.SSLContext | None:
        """How to open addresses beneath ``base_url``."""
        return make_tls(self.address)

    def get(self, path: str, **query: str | int | None) -> Json:
        given = {key: value for key, value in query.items() if value is not None}
        return self._request("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        return self._request("POST", path, json.dumps(body or {}).encode())

    def act_once(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """What may spend money. A lost answer is asked for again with the same key, which acts no second time."""
        sent = json.dumps(body or {}).encode()
        headers = {"Content-Type": "application/json", **make_key_header()}
        tries = Tries(may_repeat=True, waits_for_start=False)
        while True:
            try:
                return self._request(method, path, sent, headers)
            except Unreachable as problem:
                pause_s = tries.pause_after(problem)
            time.sleep(pause_s)

    def put(self, path: str, body: Any, size: int) -> Json:
        """``body``: bytes, or a reader of ``size`` bytes."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        return self._request("PUT", path, body, headers)

    def market_now(self) -> datetime:
        """The daemon's time, which is not ours where its clock is scaled."""
        return datetime.fromisoformat(self.status()["now"]).astimezone(UTC)

    def status(self) -> Json:
        """How the daemon itself does."""
        return self.get("/v1/status")

    def _request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Json:
        connection = open_connection(self.address, self._timeout_s)
        if headers is None:
            headers = {"Content-Type": "application/json"} if body is not None else {}
        every = {"Accept": "application/json", **make_login(self.address), **headers}
        try:
            _send(connection, method, path, body, every)
            response = connection.getresponse()
            status, raw = response.status, response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise explain(self.address, error, self._timeout_s) from None
        finally:
            connection.close()
        return read_answer(status, check_size(status, raw, MOST_BYTES))


def _send(connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
    """A request that is refused before all of it is sent has its answer all the same."""
    try:
        connection.request(method, path, body, headers)
    except (BrokenPipeError, ConnectionResetError):
        if connection.sock is None:
            raise
