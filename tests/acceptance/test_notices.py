"""Notices and the sign of life of a daemon that is a process of its own, and is killed."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, assert_one_error, command, job_text, show, submit, until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
KILLS = 3


class Receiver:
    """Keeps what it is sent. While it is stuck it has taken a message and does not say so."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.pings: list[str] = []
        self.is_free = threading.Event()
        self.is_free.set()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        if path != "/hook":
            self.pings.append(path)
            return
        checked = Verifier(SECRET).verify(body, headers)
        assert checked == json.loads(body)
        self.messages.append((headers["webhook-id"], json.loads(body)))
        self.is_free.wait(PATIENCE_S)

    def times(self) -> Counter[tuple[str, str]]:
        """How often each notice came, by its kind and id."""
        parts = [body["data"].get("notices", [body["data"]]) for _, body in list(self.messages)]
        return Counter((part["kind"], part["id"]) for notices in parts for part in notices)


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_free.set()
        server.shutdown()
        server.server_close()


def configure(root: Path, receiver: Receiver, every: int = 2) -> None:
    secret = root / "webhook-secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    (root / "autopilot.toml").write_text(
        f"""
[notices.ping]
url = "{receiver.url}/ping"
every = {every}
local = true

[notices.sinks.team]
type = "webhook"
url = "{receiver.url}/hook"
secret_file = "{secret}"
local = true
"""
    )


@pytest.fixture
def stage() -> Iterator[tuple[Theatre, Receiver]]:
    with a_receiver() as receiver, a_theatre() as theatre:
        theatre.start_market()
        configure(theatre.root, receiver)
        yield theatre, receiver


def test_a_daemon_killed_between_event_and_delivery_delivers_at_least_once_under_one_id(
    stage: tuple[Theatre, Receiver],
) -> None:
    theatre, receiver = stage
    theatre.start_daemon()
    receiver.is_free.clear()
    job_id = submit(theatre, job_text(60))
    until(lambda: receiver.messages, "the first notice")

    def has_more_than(before: int) -> bool:
        return len(receiver.messages) > before

    for _ in range(KILLS):
        before = len(receiver.messages)
        theatre.kill_daemon()
        theatre.start_daemon()
        until(partial(has_more_than, before), "the notice after a kill")
    assert show(theatre, job_id)["job"]["status"] == "succeeded"
    receiver.is_free.set()
    until(lambda: outbox_is_empty(theatre), "an empty outbox")

    times = receiver.times()
    # While it was dead the machine's cost was not observed: the bill may differ.
    kinds = Counter(kind for kind, _ in times if kind != "bill_differs")
    assert kinds == {"job_succeeded": 1, "daemon_restarted": KILLS}
    assert max(times.values()) <= 1 + KILLS
    assert times.most_common(1)[0][1] > 1, "no kill fell between the two: the test has shown nothing"
    by_message = {message_id: without_receipt(body) for message_id, body in receiver.messages}
    assert all(without_receipt(body) == by_message[message_id] for message_id, body in receiver.messages)


def without_receipt(body: Any) -> Any:
    """What a job cost is told as it is known when a notice is sent: the market's bill may come between two sendings."""
    if isinstance(body, dict):
        return {name: without_receipt(value) for name, value in body.items()}
    if isinstance(body, list):
        return [without_receipt(value) for value in body]
    return body.partition("\nReceipt: ")[0] if isinstance(body, str) else body


def outbox_is_empty(theatre: Theatre) -> bool:
    with closing(sqlite3.connect(f"file:{theatre.root}/daemon/ledger.db?mode=ro", uri=True)) as ledger:
        (count,) = ledger.execute("SELECT count(*) FROM notices").fetchone()
    return bool(count == 0)


def test_no_sign_of_life_of_a_daemon_that_reads_no_market(stage: tuple[Theatre, Receiver]) -> None:
    theatre, receiver = stage
    theatre.start_daemon()
    until(lambda: receiver.pings.count("/ping") >= 3, "three signs of life")
    assert receiver.pings[0] == "/ping/start"
    theatre.stop_market()
    until(lambda: "/ping/fail" in receiver.pings, "the failure")
    failed_at = receiver.pings.index("/ping/fail")
    until(lambda: any(kind == "market_unread" for kind, _ in receiver.times()), "the market is told to be unread")
    assert receiver.pings[failed_at:] == ["/ping/fail"]
    assert all(body["data"]["kind"] != "daemon_restarted" for _, body in receiver.messages)


def test_notify_test_tries_each_sink_and_a_job_cannot_name_one_that_is_not_there(
    stage: tuple[Theatre, Receiver],
) -> None:
    theatre, receiver = stage
    tried = command(theatre, "notify", "test")
    assert tried.returncode == 0, tried.stderr
    assert "webhook at 127.0.0.1" in tried.stdout
    assert "taken" in tried.stdout
    ((_, body),) = receiver.messages
    assert (body["type"], body["data"]["title"]) == ("test", "A test of notices")
    assert_one_error(command(theatre, "notify", "test", "strangers"), 2, "no sink named 'strangers'", "team")

    (theatre.root / "webhook-secret").write_text("whsec_short")
    assert_one_error(command(theatre, "notify", "test"), 2, "notices.sinks.team", "whsec_")
    configure(theatre.root, receiver)
    settings = theatre.root / "autopilot.toml"
    settings.write_text(settings.read_text().replace(receiver.url + "/hook", "http://127.0.0.1:9/"))
    failed = command(theatre, "notify", "test", "-o", "json")
    assert failed.returncode == 1
    assert "127.0.0.1" in json.loads(failed.stdout)["sinks"][0]["problem"]

    configure(theatre.root, receiver)
    theatre.start_daemon()
    job = theatre.root / "job.toml"
    job.write_text('notify = ["strangers"]\n' + job_text(60))
    assert_one_error(command(theatre, "submit", str(job)), 2, "no sink named 'strangers'", "team")
