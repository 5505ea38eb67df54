"""HTTP to signed URLs: connections are kept, one per thread and host, and every failure is an ``OSError``.

A store may answer a GET with the address of another host, which has the object. That host is told nothing that says who
asks: no key, no signature.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HTTP_TIMEOUT_S = 20
WHOLE_TIMEOUT_S = 60
"""For all of a small exchange: a server that sends a byte now and then satisfies any timeout between two."""
BUFFERED_BYTES = 4 << 20
"""Of what was sent so much may still be on its way: in buffers of the system, and of an SSH tunnel."""
LEAST_BYTES_S = 128 << 10
"""What a connection carries at the least: half of a tenth of 20 Mbit/s. A last save has no time to wait for less."""
MAX_OBJECT_BYTES = 1000000
BLOCK_BYTES = 256 << 10
REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
STALE = (http.client.BadStatusLine, ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class BadStatus(OSError):
    """The other side answered, with a status that is no success."""

    def __init__(self, method: str, host: str, status: int, body: bytes) -> None:
        said = " ".join(body.decode("utf-8", "replace").split())[:160]
        super().__init__(f"{method} to {host} was answered {status} {said}".rstrip())
        self.status = status


class Web:
    def __init__(self) -> None:
        self.bytes_sent = 0
        self.put_headers: dict[str, str] = {}  # what the store wants with each
        self.lock = threading.Lock()
        self.kept = threading.local()

    def get(self, url: str) -> bytes:
        return self.get_dated(url)[0]

    def get_dated(self, url: str) -> tuple[bytes, float | None]:
        """With the time of the answer by the other side's clock, in seconds since 1970; None: it does not say."""
        with self.answer("GET", url, within_s=WHOLE_TIMEOUT_S) as response:
            data, date = bytes(response.read(MAX_OBJECT_BYTES + 1)), response.getheader("Date")
        if len(data) > MAX_OBJECT_BYTES:
            raise OSError("larger than a mailbox object may be")
        try:
            return data, email.utils.parsedate_to_datetime(date or "").timestamp()
        except (TypeError, ValueError, IndexError, OverflowError):
            return data, None

    def put(self, url: str, data: bytes) -> None:
        self.send(url, lambda: data, len(data), WHOLE_TIMEOUT_S)

    def send(self, url: str, body: Callable[[], Any], size: int, within_s: float | None = None) -> None:
        """PUT ``size`` bytes; ``body`` makes them (bytes or something to read) for each try."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size), **self.put_headers}
        with self.answer("PUT", url, body, headers, within_s) as response:
            response.read(MAX_OBJECT_BYTES)
        with self.lock:
            self.bytes_sent += size

    @contextmanager
    def answer(
        self,
        method: str,
        url: str,
        body: Callable[[], Any] | None = None,
        headers: dict[str, str] | None = None,
        within_s: float | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """The response, to be read in the block. Raises ``BadStatus`` unless it is a success, ``OSError`` otherwise.

        ``within_s``: for all of it; None for what may take as long as it goes on.
        """
        host, target = split(url)
        told = dict(headers or {})
        whole = False
        limit = Limit(within_s)
        try:
            for left in range(MOST_REDIRECTS, -1, -1):
                response = self.exchange(host, method, target, body, told, limit)
                further = response.getheader("Location") if response.status in REDIRECTS else None
                if method != "GET" or not further or not left:
                    break
                url, before = urllib.parse.urljoin(url, further), host
                self.leave(host, response)
                host, target = split(url)
                if host != before:
                    told = without_signature(told)
                if (before[0], host[0]) == ("https", "http"):
                    raise OSError(f"{before[1]} leads to {host[1]}, which has no TLS")
            if not 200 <= response.status < 300:
                raise BadStatus(method, host[1], response.status, response.read(1000))
            yield response
            whole = response.isclosed() and not response.will_close
        except http.client.HTTPException as error:
            raise OSError(f"{method} to {host[1]} was cut off: {type(error).__name__}") from error
        finally:
            cut = limit.end()
            if cut or not whole:
                self.forget(host)
            if cut:
                raise OSError(f"{method} to {host[1]} took longer than {within_s} s")

    def leave(self, host: tuple[str, str], response: http.client.HTTPResponse) -> None:
        """An answer that is followed elsewhere; its connection is kept where it is read to its end."""
        response.read(MAX_OBJECT_BYTES)
        if not response.isclosed() or response.will_close:
            self.forget(host)

    def exchange(
        self,
        host: tuple[str, str],
        method: str,
        target: str,
        body: Callable[[], Any] | None,
        headers: dict[str, str],
        limit: Limit,
    ) -> http.client.HTTPResponse:
        connections = self.connections()
        for fresh in (host not in connections, True):
            if fresh:
                secure = host[0] == "https"
                kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
                connections[host] = kind(host[1], timeout=HTTP_TIMEOUT_S, blocksize=BLOCK_BYTES)
            connection = connections[host]
            try:
                if connection.sock is None:
                    connection.connect()
                limit.sock = connection.sock
                connection.sock.settimeout(HTTP_TIMEOUT_S)
                connection.request(method, target, body() if body else None, headers)
                connection.sock.settimeout(answer_timeout_s(int(headers.get("Content-Length", 0))))
                return connection.getresponse()
            except STALE:
                if not fresh:  # the other side had closed a connection that we kept
                    self.forget(host)
                    continue
                # It may have said why before it closed.
                if connection.sock is None or not body:
                    raise
                return early_answer(connection, method)
        raise AssertionError("the second try is always fresh")

    def connections(self) -> dict[tuple[str, str], http.client.HTTPConnection]:
        if not hasattr(self.kept, "connections"):
            self.kept.connections = {}
        found: dict[tuple[str, str], http.client.HTTPConnection] = self.kept.connections
        return found

    def forget(self, host: tuple[str, str]) -> None:
        connection = self.connections().pop(host, None)
        if connection is not None:
            connection.close()


def split(url: str) -> tuple[tuple[str, str], str]:
    """Scheme and host, and what is asked for there."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise OSError("not an address that can be asked")
    return (parts.scheme, parts.netloc), urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))


def answer_timeout_s(sent: int) -> float:
    """How long the other side may be silent after so many bytes: it answers once the last of them has arrived."""
    return HTTP_TIMEOUT_S + min(sent, BUFFERED_BYTES) / LEAST_BYTES_S


def without_signature(headers: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in ("authorization", "cookie") and not name.lower().startswith("x-amz-")
    }


class Limit:
    """Cuts a connection when the time for its exchange is over."""

    def __init__(self, seconds: float | None) -> None:
        self.sock: socket.socket | None = None
        self.is_over = False
        self.timer = threading.Timer(seconds or 0, self.cut)
        self.timer.daemon = True
        if seconds is not None:
            self.timer.start()

    def cut(self) -> None:
        self.is_over = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def end(self) -> bool:
        """True: it was cut, and what was read may be a part."""
        self.timer.cancel()
        return self.is_over


def early_answer(connection: http.client.HTTPConnection, method: str) -> http.client.HTTPResponse:
    """What was said to a request whose body was not read to its end."""
    response = http.client.HTTPResponse(connection.sock, method=method)
    response.begin()
    return response
