"""What may spend money is asked for with a key: again after a lost answer, and never as another request."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.client import tries
from autopilot.client.errors import AnswerLost, NotRunning
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import DaemonAddress
from tests.unit.cli.sample_daemon import Daemon, sample

SAME = (409, {"detail": "job train (01J) says the same", "hint": "--again", "reason": "same_job_open", "job": "01J"})


class Flaky:
    """A daemon that takes so many requests and answers none of them, then answers."""

    def __init__(self, path: Path, losses: int) -> None:
        self.requests: list[bytes] = []
        self._losses = losses
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(_read_whole(connection))
                if len(self.requests) > self._losses:
                    body = b'{"job": "made"}'
                    head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                    connection.sendall(head % len(body) + body)

    def keys(self) -> list[bytes]:
        lines = (line for request in self.requests for line in request.split(b"\r\n"))
        return [line for line in lines if line.lower().startswith(b"idempotency-key:")]

    def close(self) -> None:
        self._socket.close()


def _read_whole(connection: socket.socket) -> bytes:
    """Headers and body come apart; what is not read when a connection closes resets it."""
    read = b""
    while not read.endswith(b"}"):
        block = connection.recv(65_536)
        if not block:
            break
        read += block
    return read


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "AGAIN_AFTER_S", (0.0, 0.0))


@pytest.fixture
def flaky(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Flaky]:
    made = Flaky(tmp_path / "s", request.param)
    yield made
    made.close()


@pytest.mark.parametrize("flaky", [2], indirect=True)
def test_a_lost_answer_is_asked_for_again_with_the_same_key(flaky: Flaky, tmp_path: Path) -> None:
    assert JsonClient(DaemonAddress(tmp_path / "s")).act_once("POST", "/v1/jobs", {"toml": "x"}) == {"job": "made"}
    assert len(flaky.requests) == 3
    assert len(set(flaky.keys())) == 1
    assert len(flaky.keys()) == 3
    bodies = {request.partition(b"\r\n\r\n")[2] for request in flaky.requests}
    assert bodies <= {b'{"toml": "x"}', b""}  # the first read may end before the body


@pytest.mark.parametrize("flaky", [9], indirect=True)
def test_it_gives_up_after_a_few(flaky: Flaky, tmp_path: Path) -> None:
    with pytest.raises(AnswerLost, match="broke off"):
        JsonClient(DaemonAddress(tmp_path / "s")).act_once("POST", "/v1/jobs")
    assert len(flaky.requests) == 3


@pytest.mark.parametrize("flaky", [9], indirect=True)
def test_what_does_not_spend_is_asked_once(flaky: Flaky, tmp_path: Path) -> None:
    with pytest.raises(AnswerLost):
        JsonClient(DaemonAddress(tmp_path / "s")).post("/v1/jobs/x/exec")
    assert len(flaky.requests) == 1
    assert flaky.keys() == []


def test_a_daemon_that_was_never_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        JsonClient(DaemonAddress(tmp_path / "none")).act_once("POST", "/v1/jobs")


def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text('name = "a"\nimage = "b:1"\nrun = "true"\n[resources]\ngpu = "RTX 4090"\n')
    return str(path)


def test_each_submit_has_a_key_of_its_own(daemon: Daemon, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(["submit", job_file(tmp_path)]) == 0
    bodies = [body for asked, _, body in daemon.requests if asked == "POST /v1/jobs"]
    assert [body["again"] for body in bodies] == [False, False]


def test_a_second_job_of_the_same_is_refused_off_a_terminal(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["POST /v1/jobs"] = SAME
    assert run(["submit", job_file(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: job train (01J) says the same\nhint: --again\n"


def test_again_means_it(daemon: Daemon, tmp_path: Path) -> None:
    assert run(["submit", job_file(tmp_path), "--again"]) == 0
    (body,) = [body for asked, _, body in daemon.requests if asked == "POST /v1/jobs"]
    assert body["again"] is True


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("", 2), ("n", 2)])
def test_on_a_terminal_it_asks(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        daemon.answers["POST /v1/jobs"] = (201, sample("submitted"))
        return typed

    monkeypatch.setattr("builtins.input", answer)
    daemon.answers["POST /v1/jobs"] = SAME
    assert run(["submit", job_file(tmp_path)]) == code
    assert asked == ["job train (01J) says the same. Submit another one? [y/N] "]
    bodies = [json.dumps(body["again"]) for where, _, body in daemon.requests if where == "POST /v1/jobs"]
    assert bodies == (["false", "true"] if code == 0 else ["false"])
