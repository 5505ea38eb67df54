"""The daemon as a service manager sees it: signals, notifications, exit codes; and what users see of their job."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from autopilot.cli.main import run
from autopilot_lab.demo.theatre import Process, Theatre
from tests.acceptance.stage import (
    first_tick,
    is_settled,
    job_text,
    market_events,
    show,
    submit,
    until,
)
from tests.integration.service.patient import UMASK
from tests.integration.service.service_world import WITHOUT_LISTENER, a_patient_theatre

HANG_REAL_S = 8.0
"""A machine that takes longer to pass a signal on runs no tests."""
SLOW = 15.0
"""So many market seconds a second that the hang is no longer than a market's."""


@pytest.fixture
def market() -> Iterator[Theatre]:
    with a_patient_theatre() as theatre:
        theatre.start_market()
        yield theatre


@pytest.fixture
def slow_market() -> Iterator[Theatre]:
    with a_patient_theatre(speed=SLOW) as theatre:
        theatre.start_market()
        yield theatre


@pytest.fixture
def empty_market() -> Iterator[Theatre]:
    """From which nothing is rented."""
    with a_patient_theatre(WITHOUT_LISTENER) as theatre:
        theatre.start_market()
        yield theatre


def log_lines(theatre: Theatre, event: str) -> list[dict[str, Any]]:
    """Those of the daemon's log that tell of it."""
    written = (theatre.root / "daemon.log").read_text(errors="replace").split("\n")[:-1]
    lines = [json.loads(line) for line in written if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


@pytest.mark.slow
def test_sigterm_lets_a_create_on_its_way_finish_and_the_job_goes_on_after_a_restart(
    slow_market: Theatre, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = slow_market.launch_daemon()
    first_tick(slow_market.client)
    slow_market.emu("fault", {"on": "create", "kind": "effect_then_timeout", "hang_s": HANG_REAL_S})
    job_id = submit(slow_market, job_text(100))
    until(lambda: market_events(slow_market, "instance.created"), "the create", every_s=0.02)
    daemon.send_signal(signal.SIGTERM)
    assert "lease.create_unknown" not in events_in_ledger(slow_market), "it is told to stop before the answer"
    assert daemon.wait() == 0
    assert events_in_ledger(slow_market)[-1] == "lease.create_unknown", "the outcome was not recorded"

    slow_market.start_daemon()
    until(lambda: is_settled(slow_market, show(slow_market, job_id)), "the end of the job and its bill", every_s=0.2)
    assert show(slow_market, job_id)["job"]["status"] == "succeeded"
    assert len(slow_market.emu("instances")["instances"]) == 1
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(slow_market.client.socket_path))
    printed = []
    for options in ([], ["--follow"]):
        assert run(["logs", "train", *options]) == 0
        printed.append(capsys.readouterr().out)
    assert "training from step 0 to 100" in printed[0]
    assert "model sha256" in printed[0]
    assert printed[0] == printed[1]


def test_a_missing_ledger_is_not_recreated_without_an_order(empty_market: Theatre) -> None:
    stop(empty_market, empty_market.launch_daemon())
    ledger, log = empty_market.root / "daemon" / "ledger.db", empty_market.root / "daemon.log"
    for file in ledger.parent.glob("ledger.db*"):
        file.unlink()
    for what in ("missing", "empty"):
        log.write_text("")
        assert empty_market.launch_daemon().wait() == 2
        assert f"ledger.db is {what}" in log.read_text()
        assert "--new-ledger" in log.read_text()
        ledger.touch(mode=0o600)
    empty_market.client.socket_path.unlink(missing_ok=True)
    stop(empty_market, empty_market.launch_daemon("--new-ledger"))
    empty_market.client.socket_path.unlink(missing_ok=True)
    empty_market.launch_daemon()
    first_tick(empty_market.client)


def stop(theatre: Theatre, daemon: Process) -> None:
    """Once it has ticked."""
    first_tick(theatre.client)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0


def events_in_ledger(theatre: Theatre) -> list[str]:
    with sqlite3.connect(f"file:{theatre.root / 'daemon' / 'ledger.db'}?mode=ro", uri=True) as ledger:
        return [row[0] for row in ledger.execute("select name from events order by seq")]


class NotifySocket:
    """What systemd's end of ``$NOTIFY_SOCKET`` hears."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    def hear(self, line: str) -> None:
        """Wait until it is said."""
        self._socket.setblocking(True)
        while line not in self._socket.recv(4096).decode().splitlines():
            pass

    def heard(self) -> list[str]:
        """All that was said since anybody listened."""
        lines: list[str] = []
        self._socket.setblocking(False)
        while True:
            try:
                lines += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return lines

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


def test_the_watchdog_is_fed_by_completed_ticks_only(empty_market: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    notify = NotifySocket(empty_market.root / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(empty_market.root / "notify"))
    daemon = empty_market.launch_daemon()
    for line in ("READY=1", "WATCHDOG=1", "WATCHDOG=1"):
        notify.hear(line)

    def failed() -> int:
        return len(log_lines(empty_market, "tick.failed"))

    with without_jobs_table(empty_market.root / "daemon" / "ledger.db"):
        until(failed, "a tick that fails")
        notify.heard()  # also of one that had committed before
        before = failed()
        until(lambda: failed() >= before + 4, "more of them")
        assert "WATCHDOG=1" not in notify.heard()
    notify.hear("WATCHDOG=1")
    notify.heard()
    daemon.send_signal(signal.SIGTERM)
    notify.hear("STOPPING=1")
    assert daemon.wait() == 0
    notify.close()


@pytest.mark.slow
def test_what_a_daemon_creates_is_private_under_any_umask() -> None:
    with a_patient_theatre({UMASK: "0"}) as market:
        market.start_market()
        market.start_daemon()
        job_id = submit(market, job_text(20))
        until(lambda: show(market, job_id)["checkpoints"], "a checkpoint")
        made = [path for path in (market.root / "daemon").rglob("*") if path != market.client.socket_path]
        assert {path.name for path in made} >= {"ledger.db", "mailbox.key", "install-id"}
        assert [path for path in made if path.stat().st_mode & 0o077] == []


CALLS_AT_ONCE = 200


def ask_at_once(theatre: Theatre, requests: list[bytes]) -> list[bytes]:
    """The statuses. All wait before a daemon that is at something else."""
    os.kill(theatre.pids[0], signal.SIGSTOP)
    with ExitStack() as stack:
        stack.callback(os.kill, theatre.pids[0], signal.SIGCONT)
        callers = []
        for request in requests:
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            caller.connect(str(theatre.client.socket_path))
            caller.sendall(request)
            callers.append(caller)
        os.kill(theatre.pids[0], signal.SIGCONT)
        answers = [caller.makefile("rb").read() for caller in callers]
    return [answer.split()[1] for answer in answers]


def test_two_hundred_calls_at_once_are_all_answered(empty_market: Theatre) -> None:
    """Also while the daemon is at something else: none is refused because others wait before it."""
    empty_market.start_daemon()
    request = b"GET /v1/events?limit=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert ask_at_once(empty_market, [request] * CALLS_AT_ONCE) == [b"200"] * CALLS_AT_ONCE


@pytest.mark.slow
def test_two_hundred_submits_at_once_are_all_accepted(market: Theatre) -> None:
    market.start_daemon()
    requests = []
    for number in range(CALLS_AT_ONCE):
        body = json.dumps({"toml": job_text(60, name=f"job-{number}"), "source": "job.toml"}).encode()
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        requests.append(head.encode() + body)
    assert ask_at_once(market, requests) == [b"201"] * CALLS_AT_ONCE
    assert len(market.client.get("/v1/jobs", all=1)["jobs"]) == CALLS_AT_ONCE
