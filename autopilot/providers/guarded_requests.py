"""``requests`` under a limit of time and size, for vendors' SDKs: their own timeouts bound each wait, not the whole.

A server that sends a byte now and then satisfies any timeout between bytes and would block its caller forever. Here
the connection itself is cut when the time is over, be it during the handshake, the headers or the body. Only adapters'
SDK modules import this, because ``requests`` comes with the SDKs.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

LARGEST_BODY_BYTES = 8 * 2**20
_CHUNK_BYTES = 64 * 2**10

_here = threading.local()


class TimeIsOver(requests.Timeout):
    """The whole exchange took longer than it may."""


class BodyTooLarge(requests.RequestException):
    """More than anybody reads."""


class _Guard:
    """Cuts every connection that this thread opens once the time is over."""

    def __init__(self, seconds: float) -> None:
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self.deadline = time.monotonic() + seconds

    def start(self) -> None:
        self._timer.start()

    def watch(self, connected: socket.socket) -> None:
        # A duplicate: TLS takes the original over, and what is shut down is the connection that both stand for.
        with self._lock:
            self._sockets.append(connected.dup())
        if self.is_over:
            self._cut()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            while self._sockets:
                self._sockets.pop().close()

    def _cut(self) -> None:
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _watch(connected: socket.socket) -> socket.socket:
    guard: _Guard | None = getattr(_here, "guard", None)
    if guard is not None:
        guard.watch(connected)
    return connected


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _watch(super()._new_conn())


class _TlsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _watch(super()._new_conn())


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


@contextmanager
def _guard(seconds: float) -> Iterator[_Guard]:
    guard = _here.guard = _Guard(seconds)
    guard.start()
    try:
        yield guard
    finally:
        _here.guard = None
        guard.end()


def send(session: requests.Session, request: requests.PreparedRequest, seconds: float) -> requests.Response:
    """One attempt, its body read, within ``seconds`` of real time. Redirects are answers like any other.

    Raises ``requests.RequestException``; the request may have taken effect then.
    """
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    with session, _guard(seconds) as guard:
        try:
            response = session.send(request, timeout=seconds, allow_redirects=False, stream=True)
            with response:
                response._content = _body(response)
        except BodyTooLarge:
            raise
        except (requests.RequestException, OSError) as error:
            if guard.is_over:
                raise TimeIsOver(f"longer than {seconds:g} s") from error
            raise
        if guard.is_over:
            # A body without a stated length ends where the connection was cut: it may be a part.
            raise TimeIsOver(f"longer than {seconds:g} s")
        return response


def _body(response: requests.Response) -> bytes:
    body = bytearray()
    for chunk in response.iter_content(_CHUNK_BYTES):
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            raise BodyTooLarge(f"the answer is larger than {LARGEST_BODY_BYTES} bytes")
    return bytes(body)
