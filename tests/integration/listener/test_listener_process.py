"""The listener beside its daemon, both processes: whoever can connect to the one does nothing to the other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from autopilot.blobs.place import MailboxPlace
from autopilot.config.settings import load_settings
from autopilot.lab.demo.theatre import Theatre
from autopilot.service.doctor import Check, check_mailbox
from tests.acceptance.stage import a_theatre, until
from tests.mailboxes import put

IDLE_CONNECTIONS = 1100
STORM = 600
LISTENER_MB = 256
"""What its unit may have."""
KEY = "probe/heartbeat"
"""Beneath no lease, of which this daemon has none."""


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    with a_theatre(settings={"AUTOPILOT_HTTP__LISTEN": "127.0.0.1:0"}) as made:
        made.start_market()
        made.start_daemon()
        yield made


def place(theatre: Theatre) -> MailboxPlace:
    return MailboxPlace(theatre.root / "daemon")


def daemon_pid(theatre: Theatre) -> int:
    return theatre.pids[0]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listens_on_tcp(pid: int) -> bool:
    """Whether the process has a TCP socket that waits for connections."""
    waiting = set()
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
        waiting |= {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
    opened = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    return bool(waiting & opened)


def last_tick(theatre: Theatre) -> str:
    return str(theatre.client.get("/v1/status")["last_tick_at"])


def assert_ticks_go_on(theatre: Theatre) -> None:
    before = last_tick(theatre)
    until(lambda: last_tick(theatre) != before, "another tick", within_s=10)


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(5)
            connection.connect(("127.0.0.1", port))
            made.append(connection)
        yield made


def test_the_process_that_ticks_opens_no_tcp_port(theatre: Theatre) -> None:
    (listener,) = children(daemon_pid(theatre))
    assert not listens_on_tcp(daemon_pid(theatre))
    assert listens_on_tcp(listener)
    environment = Path(f"/proc/{listener}/environ").read_bytes()
    assert b"AUTOPILOT_" not in environment
    assert b"API_KEY" not in environment


def test_killed_it_is_started_anew_and_ticks_go_on(theatre: Theatre) -> None:
    port = place(theatre).port()
    (listener,) = children(daemon_pid(theatre))
    os.kill(listener, signal.SIGKILL)
    assert_ticks_go_on(theatre)
    until(lambda: put(place(theatre), KEY, b"{}") == 201, "a heartbeat", within_s=20)
    assert place(theatre).port() == port
    assert children(daemon_pid(theatre)) != [listener]


def test_idle_connections_stop_neither_ticks_nor_an_honest_machine(theatre: Theatre) -> None:
    port = place(theatre).port()
    assert port is not None
    with idle_connections(port, IDLE_CONNECTIONS):
        for _ in range(3):
            asked_at = time.monotonic()
            theatre.client.get("/v1/jobs")
            assert time.monotonic() - asked_at < 5
            assert put(place(theatre), KEY, b"{}") == 201
            assert_ticks_go_on(theatre)
    assert (theatre.root / "daemon.log").stat().st_size < 1 << 20


def test_a_storm_on_both_ports_stops_neither_ticks_nor_whoever_has_a_token(theatre: Theatre) -> None:
    """Idle connections, headers that never end and bodies of 200 MB that are not wanted, on each port at once."""
    made = theatre.client.post("/v1/tokens", {"name": "ci", "scope": "read"})
    ports = [place(theatre).port(name) for name in ("mailbox", "api")]
    with ExitStack() as stack:
        for port in ports:
            assert port is not None
            dripping = stack.enter_context(idle_connections(port, STORM))
            for connection in dripping[::4]:
                with suppress(OSError):  # it was closed already, to make room
                    connection.sendall(b"PUT /v1/code/x HTTP/1.1\r\nHost: localhost\r\nX-")
            for connection in dripping[1::40]:
                head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000000\r\n\r\n"
                with suppress(OSError):
                    connection.sendall(head + b"x" * 65536)
        for _ in range(3):
            asked_at = time.monotonic()
            theatre.client.get("/v1/jobs")
            assert time.monotonic() - asked_at < 5
            assert put(place(theatre), KEY, b"{}") == 201
            request = Request(f"http://127.0.0.1:{ports[1]}/v1/status")
            request.add_header("Authorization", f"Bearer {made['secret']}")
            with urlopen(request, timeout=10) as answer:
                assert json.load(answer)["jobs_open"] == 0
            assert_ticks_go_on(theatre)
        (listener,) = children(daemon_pid(theatre))
        assert resident_mb(listener) < LISTENER_MB


def resident_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


def test_it_ends_within_a_second_of_its_daemon(theatre: Theatre) -> None:
    (listener,) = children(daemon_pid(theatre))
    theatre.kill_daemon()
    until(lambda: not is_alive(listener), "the end of the listener", within_s=1.0, every_s=0.02)
    theatre.start_daemon()
    assert put(place(theatre), KEY, b"{}") == 201


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_it_closes_its_port_once_another_daemon_leads(theatre: Theatre) -> None:
    assert put(place(theatre), KEY, b"{}") == 201
    place(theatre).announce()
    until(lambda: put(place(theatre), KEY, b"{}", 1.0) == 0, "the port is closed", within_s=10)
    assert_ticks_go_on(theatre)


def test_doctor_tries_the_public_address(theatre: Theatre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through whatever leads to the listener; here straight to it, and then to nowhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(theatre.root / "daemon"))

    def check(port: int | None) -> Check:
        monkeypatch.setenv("AUTOPILOT_BLOBS__PUBLIC_URL", f"http://127.0.0.1:{port}")
        return asyncio.run(check_mailbox(load_settings()))

    found = check(place(theatre).port())
    assert found.ok is True, found
    assert "leads to this machine's mailbox; tried from here" in found.detail
    with socket.create_server(("127.0.0.1", 0)) as other:
        nowhere = other.getsockname()[1]
    found = check(nowhere)
    assert found.ok is False
    assert "cannot read from the mailbox through that address" in found.detail
    assert not list((place(theatre).objects / "probe").glob("*"))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "another"))
    assert check(nowhere).ok is None, "no daemon has run there"
