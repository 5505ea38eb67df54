"""A submit that is cut off at any byte, or whose daemon is killed under it: sent again with its key, it is one job.

At the users' socket, and over TCP by a token, through the listener.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from autopilot.blobs.place import API, MailboxPlace
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, job_text
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@dataclass
class Caller:
    theatre: Theatre
    is_far: bool
    token: str = ""

    def request(self, name: str, key: str) -> bytes:
        body = json.dumps({"toml": job_text(1_000_000, name), "source": "job.toml"}).encode()
        lines = ["POST /v1/jobs HTTP/1.1", "Host: localhost", f"Idempotency-Key: {key}", f"Content-Length: {len(body)}"]
        lines += [f"Authorization: Bearer {self.token}"] if self.is_far else []
        return "\r\n".join((*lines, "", "")).encode() + body

    def send(self, data: bytes) -> bytes:
        """What comes back, up to the end of its head at the least; nothing if the other side breaks off."""
        try:
            with self._connect() as connection:
                connection.sendall(data)
                return connection.recv(65_536)
        except OSError:
            return b""

    def cut(self, data: bytes, end: int) -> None:
        """Sends the first bytes, then disconnects."""
        with self._connect() as connection:
            connection.sendall(data[:end])

    def make_token(self) -> None:
        if self.is_far and not self.token:
            wish = {"name": "far", "scope": "submit"}
            self.token = self.theatre.client.post("/v1/tokens", wish)["secret"]

    @contextmanager
    def _connect(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_INET if self.is_far else socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            if self.is_far:
                connection.connect(("127.0.0.1", MailboxPlace(self.theatre.root / "daemon").port(API)))
            else:
                connection.connect(str(self.theatre.client.socket_path))
            yield connection


@pytest.fixture(params=["socket", "tcp"])
def caller(request: pytest.FixtureRequest) -> Iterator[Caller]:
    is_far = request.param == "tcp"
    with a_theatre(settings={"AUTOPILOT_HTTP__LISTEN": "127.0.0.1:0"} if is_far else None) as theatre:
        theatre.start_market()
        yield Caller(theatre, is_far)


def jobs_called(theatre: Theatre, name: str) -> int:
    return sum(job["name"] == name for job in theatre.client.get("/v1/jobs", all=1)["jobs"])


def test_the_connection_is_cut_at_any_byte(caller: Caller) -> None:
    caller.theatre.start_daemon()
    caller.make_token()
    rng = random.Random(7)
    for round_ in range(12):
        data = caller.request(f"cut-{round_}", f"key-{round_}")
        whole = round_ % 3 == 0  # all of it is there, and the caller does not wait for the answer
        caller.cut(data, len(data) if whole else rng.randrange(1, len(data)))
        assert b" 201 " in caller.send(data)
        assert jobs_called(caller.theatre, f"cut-{round_}") == 1


def test_the_daemon_is_killed_under_it(caller: Caller) -> None:
    theatre, rng = caller.theatre, random.Random(11)
    for round_ in range(12):
        theatre.start_daemon()
        caller.make_token()
        data = caller.request(f"kill-{round_}", f"key-{round_}")
        killer = threading.Timer(rng.uniform(0.0, 0.15), theatre.kill_daemon)
        killer.start()
        caller.send(data)
        killer.join()
        theatre.start_daemon()
        assert b" 201 " in caller.send(data)
        assert jobs_called(theatre, f"kill-{round_}") == 1
        theatre.kill_daemon()
