"""The check on arrival: real programs, disks and connections, each of which may hang."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import killed
from autopilot.agent.shipped.arrival import Arrival
from autopilot.agent.shipped.killed import Kills, memory_limit, memory_share
from autopilot.agent.shipped.web import Web
from autopilot.mailbox.reading import parse_heartbeat
from autopilot_lab.sandbox.machine_traits import MachineTraits

ORDER: dict[str, Any] = {"most_s": 60, "hosts": [], "put_url": "", "get_url": ""}
MIB = 1 << 20


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def write(traits: MachineTraits) -> None:
        traits.write_program(tmp_path / "bin")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    return write


@pytest.fixture
def store() -> Iterator[str]:
    """Keeps one object."""
    kept: dict[str, bytes] = {}

    class Store(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(kept[self.path])))
            self.end_headers()
            self.wfile.write(kept[self.path])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/part"
    server.shutdown()
    server.server_close()


def look(tmp_path: Path, speed: float = 60.0, **order: Any) -> dict[str, Any]:
    return Arrival({**ORDER, **order}, str(tmp_path / "workspace"), Web(), speed).look()


def read(found: dict[str, Any]) -> Any:
    """As the daemon reads it in a heartbeat."""
    states = {"boot": 1, "seq": 1, "run_epoch": 1, "orders_seq_seen": 1, "state": "setting_up"}
    beat = parse_heartbeat(json.dumps({"v": 1, **states, "readings": {"arrival": found}}).encode())
    assert beat is not None
    assert beat.readings is not None
    return beat.readings.arrival


def test_what_a_sound_machine_has(tmp_path: Path, driver: Any, store: str) -> None:
    driver(MachineTraits(gpus=2))
    found = look(tmp_path, put_url=store, get_url=store)
    arrival = read(found)
    assert [(gpu.used, gpu.total, gpu.slowed, gpu.errors) for gpu in arrival.gpus] == [(MIB, 24564 * MIB, False, 0)] * 2
    assert (arrival.driver, arrival.gpu_fault, arrival.unreachable) == ("580.95.05", "", ())
    assert arrival.disk_free > 0
    assert min(arrival.disk_mb_per_s, arrival.upload_mbps, arrival.download_mbps) > 0
    assert arrival.ram == memory_share()
    assert abs(arrival.clock_off_s) < 5
    assert arrival.all_reduce == "skipped", "no torch"
    assert os.listdir(tmp_path / "workspace") == [], "nothing is left behind"


def test_without_a_driver_nothing_is_known_of_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    arrival = read(look(tmp_path))
    assert (arrival.gpus, arrival.gpu_fault) == (None, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("traits", "gpus", "fault"),
    [
        (MachineTraits(throttle="0x0000000000000040"), [(True, 0)], ""),
        (MachineTraits(throttle="0x0000000000000004", ecc_errors=None), [(False, 0)], ""),
        (MachineTraits(ecc_errors=3), [(False, 3)], ""),
        (MachineTraits(says="Failed to initialize NVML: Unknown Error"), None, "Failed to initialize NVML"),
        (MachineTraits(gpus=0), None, "No devices were found"),
        (MachineTraits(says="a word that is not understood"), None, ""),
    ],
)
def test_what_its_driver_says(
    tmp_path: Path, driver: Any, traits: MachineTraits, gpus: list[tuple[bool, int]] | None, fault: str
) -> None:
    driver(traits)
    arrival = read(look(tmp_path))
    shown = None if arrival.gpus is None else [(gpu.slowed, gpu.errors) for gpu in arrival.gpus]
    assert shown == gpus
    assert arrival.gpu_fault.startswith(fault) if fault else not arrival.gpu_fault


def test_a_driver_that_hangs_is_told_in_time_and_costs_nothing_else(tmp_path: Path, driver: Any) -> None:
    driver(MachineTraits(hangs=True))
    arrival = read(look(tmp_path))
    assert arrival.gpu_fault == "nvidia-smi hangs"
    assert arrival.disk_free > 0


def test_a_driver_that_had_too_little_time_does_not_hang(tmp_path: Path, driver: Any) -> None:
    driver(MachineTraits(hangs=True))
    assert read(look(tmp_path, most_s=5)).gpu_fault == ""


def test_hosts_that_take_no_connection(tmp_path: Path, store: str) -> None:
    port = int(store.rpartition(":")[2].partition("/")[0])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
        arrival = read(look(tmp_path, hosts=[f"127.0.0.1:{port}", nobody]))
    assert arrival.unreachable == (nobody,)


def test_a_store_that_cannot_be_reached_leaves_only_its_own_answer_out(tmp_path: Path) -> None:
    arrival = read(look(tmp_path, put_url="http://127.0.0.1:1/x", get_url="http://127.0.0.1:1/x"))
    assert (arrival.upload_mbps, arrival.download_mbps, arrival.clock_off_s) == (None, None, None)
    assert arrival.disk_free > 0


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/.autopilot-arrival").mkdir()
    assert "directory" in read(look(tmp_path)).disk_fault


def a_group(tmp_path: Path, limit: str, peak: str, kills: int) -> str:
    (tmp_path / "memory.max").write_text(limit)
    (tmp_path / "memory.peak").write_text(peak)
    (tmp_path / "memory.events").write_text(f"low 0\nhigh 0\nmax 12\noom 1\noom_kill {kills}\noom_group_kill 0\n")
    return str(tmp_path)


def test_a_kill_for_memory_by_the_counters_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "OWN", str(tmp_path / "none"))
    root = a_group(tmp_path, str(64 * MIB), str(64 * MIB), 1)
    kills = Kills(root)
    assert kills.report(-9) is None, "killed, and not for memory"
    a_group(tmp_path, str(64 * MIB), str(63 * MIB), 2)
    assert kills.report(1) == {"peak": 63 * MIB, "limit": 64 * MIB}
    assert kills.report(0) is None
    a_group(tmp_path, "max\n", "1", 2)
    assert memory_limit(root) == killed.host_memory(), "no limit of its own"
    assert memory_share(root) is None


GROUPS = Path("/sys/fs/cgroup/memory")
HUNGRY = """
import os, subprocess, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
from autopilot.agent.shipped.killed import Kills
kills = Kills(sys.argv[2])
code = subprocess.run([sys.executable, "-c", "held = bytearray(256 << 20)"]).returncode
print(code, kills.report(code))
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 64 MiB."""
    path = GROUPS / f"autopilot-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(64 * MIB))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield path
    for _ in range(100):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.05)


def test_a_kill_for_memory_by_the_kernel(group: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", HUNGRY, str(group), "/sys/fs/cgroup"], capture_output=True, text=True, check=True
    ).stdout
    code, _, report = said.partition(" ")
    assert int(code) == -9
    told = json.loads(report.replace("'", '"'))
    assert told["limit"] == 64 * MIB
    assert 50 * MIB < told["peak"] <= 64 * MIB
