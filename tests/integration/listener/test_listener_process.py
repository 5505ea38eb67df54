"""The listener and its daemon as two processes: a client of the one cannot affect the other."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from autopilot.blobs.place import MailboxPlace
from autopilot.config.settings import load_settings
from autopilot.service.doctor import Check, check_mailbox
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import command, job_text, until
from tests.integration.service.service_world import a_patient_theatre, own_name
from tests.mailboxes import put
from tests.patience import PATIENCE_S
from tests.variants import first_of

IDLE_CONNECTIONS = 1100
STORM = 600
LISTENER_MB, DAEMON_MB = 256, 512
"""What their units may have."""
UPLOAD_MB = 500
KEY = "probe/heartbeat"
"""Beneath no lease, of which this daemon has none."""


SERVED_OVER_TCP = {"AUTOPILOT_HTTP__LISTEN": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    """One for all tests: each leaves a daemon that ticks, with its listener."""
    with a_patient_theatre(SERVED_OVER_TCP) as made:
        made.start_market()
        made.start_daemon()
        yield made


def place(theatre: Theatre) -> MailboxPlace:
    return MailboxPlace(theatre.root / "daemon")


def beat(theatre: Theatre) -> int:
    """The status that answers a machine's heartbeat, 0 if no process listens."""
    return put(place(theatre), KEY, b"{}", PATIENCE_S)


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
    until(lambda: last_tick(theatre) != before, "another tick")


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
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


def test_it_is_restarted_after_a_kill_and_ticks_continue(theatre: Theatre) -> None:
    port = place(theatre).port()
    (listener,) = children(daemon_pid(theatre))
    os.kill(listener, signal.SIGKILL)
    assert_ticks_go_on(theatre)
    until(lambda: beat(theatre) == 201, "a heartbeat")
    assert place(theatre).port() == port
    assert children(daemon_pid(theatre)) != [listener]


@pytest.mark.parametrize("connections", first_of((100, IDLE_CONNECTIONS)))
def test_idle_connections_stop_neither_ticks_nor_an_honest_machine(theatre: Theatre, connections: int) -> None:
    port = place(theatre).port()
    assert port is not None
    with idle_connections(port, connections):
        for _ in range(3):
            theatre.client.get("/v1/jobs")
            assert beat(theatre) == 201
            assert_ticks_go_on(theatre)
    assert (theatre.root / "daemon.log").stat().st_size < 1 << 20


@pytest.mark.parametrize("connections", first_of((80, STORM)))
def test_a_storm_on_both_ports_stops_neither_ticks_nor_callers_with_a_token(theatre: Theatre, connections: int) -> None:
    made = theatre.client.post("/v1/tokens", {"name": own_name("ci"), "scope": "read"})
    with storm(theatre, connections):
        for _ in range(3):
            assert_all_are_served(theatre, made["secret"])
            assert_ticks_go_on(theatre)
        (listener,) = children(daemon_pid(theatre))
        assert resident_mb(listener) < LISTENER_MB


@pytest.mark.slow
def test_an_upload_of_500_mb_in_a_storm_delays_no_tick(theatre: Theatre, tmp_path: Path) -> None:
    """Over the unix socket, while 2,000 connections on the TCP ports idle, drip and send 200 MB."""
    made = theatre.client.post("/v1/tokens", {"name": own_name("ci"), "scope": "read"})
    (tmp_path / "code").mkdir()
    with (tmp_path / "code" / "data.bin").open("wb") as file:
        block = random.Random(5).randbytes(1 << 20)
        for number in range(UPLOAD_MB):
            file.write(number.to_bytes(8, "big") + block[8:])
    job = tmp_path / "job.toml"
    job.write_text(job_text(2) + '\n[code]\npath = "code"\nmax = "600MB"\n')
    most_mb: Counter[str] = Counter()
    with storm(theatre, 1000) as opened:
        began_at = time.monotonic()
        with ThreadPoolExecutor(1) as thread:
            upload = thread.submit(command, theatre, "submit", str(job), timeout_s=PATIENCE_S)
            while not upload.done():
                assert_all_are_served(theatre, made["secret"])
                assert_ticks_go_on(theatre)
                (listener,) = children(daemon_pid(theatre))
                for name, pid in (("daemon", daemon_pid(theatre)), ("listener", listener)):
                    most_mb[name] = max(most_mb[name], resident_mb(pid))
        took_s = time.monotonic() - began_at
    assert upload.result().returncode == 0, upload.result().stderr
    print(f"{UPLOAD_MB} MB in {took_s:.1f} s beside {len(opened)} connections; most memory {dict(most_mb)} MB")
    assert most_mb["daemon"] < DAEMON_MB
    assert most_mb["listener"] < LISTENER_MB
    (shown,) = theatre.client.get("/v1/jobs")["jobs"]
    assert shown["code"]["size_bytes"] == UPLOAD_MB << 20


@contextmanager
def storm(theatre: Theatre, connections: int) -> Iterator[list[socket.socket]]:
    """Idle connections, headers that never end and bodies of 200 MB that are not wanted, on each port at once."""
    with ExitStack() as stack:
        opened = []
        for port in (place(theatre).port(name) for name in ("mailbox", "api")):
            assert port is not None
            dripping = stack.enter_context(idle_connections(port, connections))
            for connection in dripping[::4]:
                with suppress(OSError):  # it was closed already, to make room
                    connection.sendall(b"PUT /v1/code/x HTTP/1.1\r\nHost: localhost\r\nX-")
            for connection in dripping[1::40]:
                head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000000\r\n\r\n"
                with suppress(OSError):
                    connection.sendall(head + b"x" * 65536)
            opened += dripping
        yield opened


def assert_all_are_served(theatre: Theatre, secret: str) -> None:
    """While the storm goes on."""
    theatre.client.get("/v1/jobs")
    assert beat(theatre) == 201
    request = Request(f"http://127.0.0.1:{place(theatre).port('api')}/v1/status")
    request.add_header("Authorization", f"Bearer {secret}")
    with urlopen(request, timeout=PATIENCE_S) as answer:
        assert "jobs_open" in json.load(answer)


def resident_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


def test_it_ends_within_a_second_of_its_daemon(theatre: Theatre) -> None:
    (listener,) = children(daemon_pid(theatre))
    theatre.kill_daemon()
    # The documentation promises a second; ten times that for a machine that is busy with other tests.
    until(lambda: not is_alive(listener), "the end of the listener", within_s=10.0, every_s=0.02)
    theatre.start_daemon()
    assert beat(theatre) == 201


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_it_closes_its_port_once_another_daemon_leads() -> None:
    with a_patient_theatre(SERVED_OVER_TCP) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        assert beat(theatre) == 201
        place(theatre).announce()
        until(lambda: beat(theatre) == 0, "the port is closed")
        assert_ticks_go_on(theatre)


def test_doctor_tries_the_public_address(theatre: Theatre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the route that leads to the listener: here directly to it, then to nowhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(theatre.root / "daemon"))

    def check(port: int | None) -> Check:
        monkeypatch.setenv("AUTOPILOT_BLOBS__PUBLIC_URL", f"http://127.0.0.1:{port}")
        return asyncio.run(check_mailbox(load_settings()))

    def probes() -> list[Path]:
        return sorted((place(theatre).objects / "probe").glob("*"))

    before = probes()
    found = check(place(theatre).port())
    assert found.ok is True, found
    assert "leads to this machine's mailbox; tried from here" in found.detail
    with socket.create_server(("127.0.0.1", 0)) as other:
        nowhere = other.getsockname()[1]
    found = check(nowhere)
    assert found.ok is False
    assert "cannot read from the mailbox through that address" in found.detail
    assert probes() == before
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "another"))
    assert check(nowhere).ok is None, "no daemon has run there"
