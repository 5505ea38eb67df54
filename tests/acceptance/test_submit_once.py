"""A submit that is cut off at any byte, or whose daemon is killed under it: sent again with its key, it is one job."""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path

import pytest

from autopilot.lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, job_text


def a_request(name: str, key: str) -> bytes:
    body = json.dumps({"toml": job_text(1_000_000, name), "source": "job.toml"}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def send(path: Path, data: bytes, within_s: float = 30) -> bytes:
    """What comes back, up to the end of its head at the least; nothing where the other side breaks off."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(within_s)
        try:
            connection.connect(str(path))
            connection.sendall(data)
            return connection.recv(65_536)
        except OSError:
            return b""


def cut(path: Path, data: bytes, end: int) -> None:
    """The first bytes, and then nobody is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(data[:end])


def jobs_called(theatre: Theatre, name: str) -> int:
    return sum(job["name"] == name for job in theatre.client.get("/v1/jobs", all=1)["jobs"])


def test_the_connection_is_cut_at_any_byte() -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.start_daemon()
        path, rng = theatre.client.socket_path, random.Random(7)
        for round_ in range(12):
            data = a_request(f"cut-{round_}", f"key-{round_}")
            whole = round_ % 3 == 0  # all of it is there, and whoever asked does not wait for the answer
            cut(path, data, len(data) if whole else rng.randrange(1, len(data)))
            assert b" 201 " in send(path, data)
            assert jobs_called(theatre, f"cut-{round_}") == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_daemon_is_killed_under_it() -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        rng = random.Random(11)
        for round_ in range(12):
            theatre.start_daemon()
            path = theatre.client.socket_path
            data = a_request(f"kill-{round_}", f"key-{round_}")
            killer = threading.Timer(rng.uniform(0.0, 0.15), theatre.kill_daemon)
            killer.start()
            send(path, data)
            killer.join()
            theatre.start_daemon()
            assert b" 201 " in send(path, data)
            assert jobs_called(theatre, f"kill-{round_}") == 1
            theatre.kill_daemon()
