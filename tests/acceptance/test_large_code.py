"""Half a gigabyte of code, at the socket and over TCP: the daemon answers and ticks, within the memory of its unit."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from autopilot.blobs.place import API, MailboxPlace
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, command

pytestmark = pytest.mark.slow

MB = 1 << 20
DAEMON_MB, LISTENER_MB = 512, 256
"""What systemd/ allows them."""
JOB = """\
name = "large"
image = "python:3.12-slim"
run = "true"

[code]
max = "1GB"

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$3.00"
"""


def peak_mb(pid: int) -> float:
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) / 1024


def listener_of(daemon: int) -> int:
    for children in Path(f"/proc/{daemon}/task").glob("*/children"):
        for pid in map(int, children.read_text().split()):
            if b"autopilot.listener" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    raise AssertionError("the daemon has no listener")


class Asker(threading.Thread):
    """Asks for the status all the while."""

    def __init__(self, theatre: Theatre) -> None:
        super().__init__()
        self._theatre, self._ended = theatre, threading.Event()
        self.ticks: set[str] = set()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.ticks.add(str(self._theatre.client.get("/v1/status")["last_tick_at"]))

    def end(self) -> None:
        self._ended.set()
        self.join()


@pytest.mark.parametrize("way", ["socket", "tcp"])
def test_half_a_gigabyte_of_code(tmp_path: Path, way: str) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    for number in range(5):
        with (tmp_path / f"part-{number}").open("wb") as file:
            for _ in range(100):
                file.write(os.urandom(MB))
    with a_theatre(settings={"AUTOPILOT_HTTP__LISTEN": "127.0.0.1:0"}) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        there: dict[str, str] = {}
        if way == "tcp":
            made = theatre.client.post("/v1/tokens", {"name": "far", "scope": "submit"})
            port = MailboxPlace(theatre.root / "daemon").port(API)
            there = {"AUTOPILOT_URL": f"http://127.0.0.1:{port}", "AUTOPILOT_TOKEN": made["secret"]}
        asker = Asker(theatre)
        asker.start()
        done = command(theatre, "submit", str(tmp_path / "job.toml"), timeout_s=1200, **there)
        asker.end()
        assert done.returncode == 0, done.stderr
        daemon = theatre.pids[0]
        theatre.client.post(f"/v1/jobs/{theatre.client.get('/v1/jobs')['jobs'][0]['id']}/cancel")
        assert peak_mb(daemon) < DAEMON_MB
        assert peak_mb(listener_of(daemon)) < LISTENER_MB
        assert len(asker.ticks) > 3, "it answered and ticked meanwhile"
        print(f"{way}: daemon {peak_mb(daemon):.0f} MB, listener {peak_mb(listener_of(daemon)):.0f} MB")
