"""The agent's requests end although the other side never does: its last deed, to destroy itself, is one of them."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from autopilot.agent.shipped import web as agent_web
from autopilot.agent.shipped.markets import ask
from autopilot.agent.shipped.web import Web

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = {
    "body": (HEAD + b"Content-Length: 9999999\r\n\r\n", b" "),
    "until-closed": (HEAD + b"Connection: close\r\n\r\n", b" "),
    "head": (HEAD, b"X-More: y\r\n"),
}


@pytest.fixture(params=sorted(DRIPS))
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that takes any request and answers a byte at a time."""
    head, drop = DRIPS[request.param]
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(head)
                    while True:
                        for byte in drop:
                            connection.sendall(bytes([byte]))
                            time.sleep(0.01)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize(
    ("date", "at"),
    [
        (b"Date: Fri, 20 Nov 2026 09:30:00 GMT\r\n", 1795167000.0),
        (b"Date: soon\r\n", None),
        (b"Date: Fri, 20 Nov 999999 09:30:00 GMT\r\n", None),
        (b"", None),
    ],
)
def test_an_answer_is_dated_by_its_server(date: bytes, at: float | None) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(HEAD + date + b"Content-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        assert Web().get_dated(f"http://127.0.0.1:{listener.getsockname()[1]}/") == (b"{}", at)
    thread.join()


def test_an_answer_is_awaited_until_what_was_sent_can_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tunnel takes all at once and its line is slow, the answer comes long after the last byte was sent."""
    waits: list[float | None] = []
    get_response = http.client.HTTPConnection.getresponse

    def note(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        waits.append(connection.sock.gettimeout())
        return get_response(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", note)
    listener = socket.create_server(("127.0.0.1", 0))
    sizes = (64 << 20, 1 << 20, 0)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as sent:
            for size in sizes:
                while sent.readline().strip():
                    pass
                sent.read(size)
                connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        web, url = Web(), f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for size in sizes[:2]:
            web.send(url, lambda size=size: bytes(size), size)  # type: ignore[misc]
        web.get(url)
    thread.join()
    assert waits == [20 + 32, 20 + 8, 20], "the connection was kept"


def test_small_exchanges_are_cut_off_when_their_time_is_over(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_web, "WHOLE_TIMEOUT_S", 0.2)
    web = Web()
    for exchange in (lambda: web.get(url), lambda: web.put(url, b"{}")):
        with pytest.raises(OSError, match=r"longer than 0\.2 s"):
            exchange()


def test_asking_the_market_is_cut_off_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.agent.shipped.markets.WHOLE_TIMEOUT_S", 0.2)
    with pytest.raises(OSError, match="longer than"):
        ask(Web(), "DELETE", url, "a-key", {})
