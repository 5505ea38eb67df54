"""The daemon as a service manager sees it: signals, notifications, exit codes; and what users see of their job."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from autopilot.lab.demo.theatre import Theatre
from tests.acceptance.stage import (
    a_theatre,
    command,
    first_tick,
    is_settled,
    job_text,
    market_events,
    show,
    submit,
    until,
)

HANG_REAL_S = 1.5


@pytest.fixture
def market() -> Iterator[Theatre]:
    with a_theatre() as theatre:
        theatre.start_market()
        yield theatre


def test_sigterm_lets_a_create_on_its_way_finish_and_the_job_goes_on_after_a_restart(market: Theatre) -> None:
    daemon = market.launch_daemon()
    first_tick(market.client)
    market.emu("fault", {"on": "create", "kind": "effect_then_timeout", "hang_s": HANG_REAL_S})
    job_id = submit(market, job_text(600))
    until(lambda: market_events(market, "instance.created"), "the create", every_s=0.02)
    asked_at = time.monotonic()
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    assert time.monotonic() - asked_at > HANG_REAL_S * 0.6, "it did not wait for the answer"
    assert events_in_ledger(market)[-1] == "lease.create_unknown", "the outcome was not recorded"

    market.start_daemon()
    until(lambda: is_settled(market, show(market, job_id)), "the end of the job and its bill")
    assert show(market, job_id)["job"]["status"] == "succeeded"
    assert len(market.emu("instances")["instances"]) == 1
    shown = command(market, "logs", "train")
    assert shown.returncode == 0
    assert "training from step 0 to 600" in shown.stdout
    assert "model sha256" in shown.stdout
    followed = command(market, "logs", "train", "--follow")
    assert followed.stdout == shown.stdout


@pytest.mark.parametrize("what_is_left", ["nothing", "an empty file"])
def test_a_ledger_that_is_gone_is_not_begun_anew_unasked(market: Theatre, what_is_left: str) -> None:
    daemon = market.launch_daemon()
    first_tick(market.client)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    for file in (market.root / "daemon").glob("ledger.db*"):
        file.unlink()
    if what_is_left != "nothing":
        (market.root / "daemon" / "ledger.db").touch(mode=0o600)
    refused = command(market, "serve")
    assert refused.returncode == 2
    assert "ledger.db is " + ("missing" if what_is_left == "nothing" else "empty") in refused.stderr
    assert "--new-ledger" in refused.stderr
    market.client.socket_path.unlink(missing_ok=True)
    begun = market.launch_daemon("--new-ledger")
    first_tick(market.client)
    begun.send_signal(signal.SIGTERM)
    assert begun.wait(30) == 0
    market.client.socket_path.unlink(missing_ok=True)
    market.launch_daemon()
    first_tick(market.client)


def events_in_ledger(theatre: Theatre) -> list[str]:
    with sqlite3.connect(f"file:{theatre.root / 'daemon' / 'ledger.db'}?mode=ro", uri=True) as ledger:
        return [row[0] for row in ledger.execute("select name from events order by seq")]


class NotifySocket:
    """What systemd's end of ``$NOTIFY_SOCKET`` hears."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    def heard_within(self, line: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                message = self._socket.recv(4096).decode()
            except TimeoutError:
                break
            if line in message.splitlines():
                return True
        return False

    def forget(self) -> None:
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._socket.close()


@contextmanager
def without_jobs_table(ledger: Path) -> Iterator[None]:
    """Every tick begins by reading jobs, so none can complete."""
    with closing(sqlite3.connect(ledger, isolation_level=None, timeout=30)) as other:
        other.execute("PRAGMA legacy_alter_table = ON")  # leaves views and foreign keys alone
        other.execute("ALTER TABLE jobs RENAME TO jobs_put_away")
        try:
            yield
        finally:
            other.execute("ALTER TABLE jobs_put_away RENAME TO jobs")


def test_the_watchdog_is_fed_by_completed_ticks_only(market: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    notify = NotifySocket(market.root / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(market.root / "notify"))
    daemon = market.launch_daemon()
    assert notify.heard_within("READY=1", 30)
    assert notify.heard_within("WATCHDOG=1", 10)
    assert notify.heard_within("WATCHDOG=1", 10)
    with without_jobs_table(market.root / "daemon" / "ledger.db"):
        time.sleep(0.5)  # a tick that had committed before may still complete
        notify.forget()
        # Eight ticks are due meanwhile.
        assert not notify.heard_within("WATCHDOG=1", 2)
    assert notify.heard_within("WATCHDOG=1", 15)
    daemon.send_signal(signal.SIGTERM)
    assert notify.heard_within("STOPPING=1", 10)
    assert daemon.wait(30) == 0
    notify.close()


def test_what_a_daemon_makes_is_for_its_user_alone_whatever_the_umask(market: Theatre) -> None:
    before = os.umask(0)
    try:
        market.launch_daemon()
    finally:
        os.umask(before)
    first_tick(market.client)
    job_id = submit(market, job_text(20))
    until(lambda: show(market, job_id)["checkpoints"], "a checkpoint")
    made = [path for path in (market.root / "daemon").rglob("*") if path != market.client.socket_path]
    assert {path.name for path in made} >= {"ledger.db", "mailbox.key", "install-id"}
    assert [path for path in made if path.stat().st_mode & 0o077] == []


SUBMITS_AT_ONCE = 200


def test_two_hundred_submits_at_once_are_all_answered(market: Theatre) -> None:
    """Also while the daemon is at something else: none is refused because others wait before it."""
    market.start_daemon()
    os.kill(market.pids[0], signal.SIGSTOP)
    with ExitStack() as stack:
        stack.callback(os.kill, market.pids[0], signal.SIGCONT)
        callers = []
        for number in range(SUBMITS_AT_ONCE):
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.settimeout(90)
            caller.connect(str(market.client.socket_path))
            body = json.dumps({"toml": job_text(60, name=f"job-{number}"), "source": "job.toml"}).encode()
            head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            caller.sendall(head.encode() + body)
            callers.append(caller)
        os.kill(market.pids[0], signal.SIGCONT)
        answers = [caller.makefile("rb").read() for caller in callers]
    assert {answer.split()[1] for answer in answers} == {b"201"}
    assert len(market.client.get("/v1/jobs", all=1)["jobs"]) == SUBMITS_AT_ONCE
