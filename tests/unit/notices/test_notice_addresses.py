"""Notices leave for public addresses alone, and it is the connection's address that counts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from autopilot import addresses
from autopilot.addresses import is_public
from autopilot.notices import web
from autopilot.notices.message import SinkFailed
from autopilot.notices.web import call
from tests.patience import PATIENCE_S

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"])
def test_addresses_of_the_internet(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%eth0", "fd00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "", "localhost"),
    ],
)
def test_addresses_of_this_machine_and_its_network(address: str) -> None:
    assert not is_public(address)


@pytest.fixture
async def listener() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that keeps what it hears and answers nothing."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def failure(url: str, *, local: bool = False) -> str:
    with pytest.raises(SinkFailed) as failed:
        await call(url, b"{}", {}, local=local)
    return str(failed.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"])
async def test_nothing_is_sent_to_this_machine(listener: tuple[int, list[bytes]], host: str) -> None:
    port, heard = listener
    assert "set local = true" in await failure(f"https://{host}:{port}/")
    assert heard == []


async def test_a_name_that_leads_elsewhere_when_it_is_called(
    listener: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a name does whose owner changes it between the check and the call."""
    port, heard = listener

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    assert "127.0.0.1 is an address of this machine" in await failure(f"https://hooks.example.org:{port}/")
    assert heard == []


async def test_plain_http_goes_to_a_near_sink_alone() -> None:
    assert "only https" in await failure("http://1.1.1.1/")


async def test_an_answer_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "WAIT_REAL_S", 0.1)

    async def wait(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:  # a writer without a reference is closed
        await asyncio.Event().wait()

    quiet = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with quiet:
        port = quiet.sockets[0].getsockname()[1]
        assert await failure(f"http://127.0.0.1:{port}/", local=True) == "no answer within 0.1 s"


async def test_an_answer_without_end_is_not_read() -> None:
    closed = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                await writer.drain()
        except OSError:
            closed.set()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        await call(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", b"", {}, local=True)
        await closed.wait()


def test_a_connection_of_mail_tries_the_addresses_that_it_may_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        kind = socket.AF_INET, socket.SOCK_STREAM, 6, ""
        rows = [(*kind, ("127.0.0.1", 1)), (*kind, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
        with addresses.connect("mail.example.org", port, PATIENCE_S, local=True) as made:
            assert made.getpeername()[1] == port
        with pytest.raises(addresses.AddressRefused):
            addresses.connect("mail.example.org", port, 5, local=False)
