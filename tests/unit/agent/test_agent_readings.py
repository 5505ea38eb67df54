"""What the agent reads of its machine, and for how long nothing was new of the command."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import gpus
from autopilot.agent.shipped.agent import Agent
from autopilot.agent.shipped.readings import NOTHING, Readings, Stillness
from autopilot.agent.shipped.states import Process
from autopilot.mailbox.reading import parse_heartbeat
from tests.unit.agent.test_agent_itself import ORDERS

MIB = 1 << 20


def a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The only ``nvidia-smi`` there is."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("AUTOPILOT_ROOT", str(tmp_path))
    for name in ("CONTAINER_ID", "RUNPOD_POD_ID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "workspace").mkdir()
    made = Agent("http://127.0.0.1:1/orders")
    put_urls = {"headers": {}, "heartbeat": "http://127.0.0.1:1/heartbeat"}
    made.machine.orders = {**ORDERS, "role": "run", "put_urls": put_urls}
    made.machine.process = Process("run").move("start")
    return made


def sent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The readings of the heartbeat that it sends now, as the daemon reads them."""
    bodies: list[bytes] = []
    monkeypatch.setattr(agent.web, "put", lambda url, body: bodies.append(body))
    agent.beat(is_due=True)
    beat = parse_heartbeat(bodies[0])
    assert beat is not None, bodies
    return beat.readings


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("97, 21504, 24576", [(0.97, 21504 * MIB, 24576 * MIB)]),
        ("0, 1, 24576\n97, [N/A], [N/A]", [(0.0, MIB, 24576 * MIB), (0.97, None, None)]),
        ("[N/A], 21504, 24576", [(None, 21504 * MIB, 24576 * MIB)]),
        ("250, -1, nan\n\n", [(None, None, None)]),
        ("No devices were found", [(None, None, None)]),
        ("97", [(0.97, None, None)]),
        ("5, 1, 2\n" * 20, [(0.05, MIB, 2 * MIB)] * 16),
        ("", None),
    ],
)
def test_what_the_driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, read: Any) -> None:
    (tmp_path / "said").write_text(said)
    a_driver(tmp_path, monkeypatch, f"exec cat {tmp_path}/said")
    found = gpus.read_gpus()
    shown = None if found is None else [(gpu["busy"], gpu["memory_used"], gpu["memory_total"]) for gpu in found]
    assert read == shown


@pytest.mark.parametrize("script", ["exit 9", "echo 97; exit 9", "printf '\\377'", "exec sleep 1000"])
def test_a_driver_that_fails_or_hangs_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(gpus, "TIMEOUT_S", 0.3)
    a_driver(tmp_path, monkeypatch, script)
    assert gpus.read_gpus() is None


@pytest.mark.parametrize(
    ("busy", "one_is"),
    [
        (None, None),
        ([0.04], False),
        ([0.05], True),
        ([0.0, 0.97], True),
        ([None, 0.97], True),
        ([None, 0.0], None),
        ([None], None),
    ],
)
def test_a_gpu_that_cannot_be_read_is_not_idle(busy: list[float | None] | None, one_is: bool | None) -> None:
    assert gpus.are_busy(None if busy is None else [{"busy": each} for each in busy]) is one_is


def test_seconds_count_while_all_three_are_known_and_still() -> None:
    still = Stillness(100)
    still.look(100, (0, None), None)
    assert still.count() is None, "no GPU was read yet"
    still.look(160, (0, None), False)
    still.look(190, (0, None), False)
    assert still.count() == 90
    still.look(2000, (0, None), None)
    assert still.count() is None
    still.look(2010, (0, None), False)
    assert still.count() == 100, "what was unknown neither counts nor is news"


@pytest.mark.parametrize(
    ("said", "busy"),
    [
        ((1, (7, None)), False),
        ((0, (8, None)), False),
        ((0, (7, None)), True),
    ],
    ids=["output alone", "progress alone", "GPUs alone"],
)
def test_any_change_resets_the_count(said: Any, busy: bool) -> None:
    still = Stillness(0)
    still.look(0, (0, (7, None)), False)
    still.look(1500, (0, (7, None)), False)
    assert still.count() == 1500
    still.look(1510, said, busy)
    assert still.count() == 0
    still.look(1520, said, False)
    assert still.count() == 10


def test_output_that_comes_while_no_gpu_can_be_read_is_news_all_the_same() -> None:
    still = Stillness(0)
    still.look(0, 0, False)
    still.look(1500, 0, False)
    still.look(1510, 1, None)
    assert still.count() is None
    still.look(1520, 1, False)
    assert still.count() == 10


def test_an_old_reading_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_driver(tmp_path, monkeypatch, "echo 97, 1, 2")
    taken = Readings(second=2.0)
    taken.take(str(tmp_path), True, lambda: 1000.0)
    found = taken.at(1120)
    assert found["gpus"] == [{"busy": 0.97, "memory_used": MIB, "memory_total": 2 * MIB}]
    assert found["disk_free"] > 0
    assert found["load"] >= 0
    assert taken.at(1121) == NOTHING


def test_a_disk_that_is_not_there_and_gpus_of_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_driver(tmp_path, monkeypatch, "echo 97, 1, 2")
    taken = Readings(second=1.0)
    taken.take(str(tmp_path / "nowhere"), False, lambda: 0.0)
    assert (taken.at(0)["gpus"], taken.at(0)["disk_free"]) == (None, None)


def test_no_number_makes_a_heartbeat_one_that_the_daemon_refuses(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_driver(tmp_path, monkeypatch, "echo 99, 1e300, 4294967295")
    monkeypatch.setattr(os, "getloadavg", lambda: (1e9, 0.0, 0.0))
    agent.readings.take(agent.workdir(), True, agent.now)
    found = sent(agent, monkeypatch)
    assert [(gpu.busy, gpu.memory_used) for gpu in found.gpus] == [(0.99, None)]
    assert found.load == 1e6


def test_a_driver_that_hangs_does_not_keep_heartbeats_back(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    a_driver(tmp_path, monkeypatch, f"touch {asked}; exec sleep 1000")
    monkeypatch.setattr(gpus, "TIMEOUT_S", 20)
    watch = threading.Thread(target=agent.readings.take, args=(agent.workdir(), True, agent.now), daemon=True)
    watch.start()
    while not asked.exists():
        watch.join(0.01)
    agent.look_at_job()
    found = sent(agent, monkeypatch)
    assert watch.is_alive()
    assert (found.gpus, found.still_s) == (None, None)


def test_the_agent_counts_output_and_progress_of_its_command(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_driver(tmp_path, monkeypatch, "echo 0, 1, 2")
    now = 1000.0
    monkeypatch.setattr(agent, "now", lambda: now)
    agent.stillness = Stillness(now)

    def look(seconds: float) -> float | None:
        nonlocal now
        now += seconds
        agent.readings.take(agent.workdir(), True, agent.now)
        agent.look_at_job()
        still_s: float | None = sent(agent, monkeypatch).still_s
        return still_s

    look(0)
    assert look(40) == 40
    agent.take_output(b".")
    assert look(1) == 0
    assert look(30) == 30
    Path(agent.progress.path).write_text(json.dumps({"step": 1}))
    assert look(1) == 0
    assert look(20) == 20
    agent.machine.process = Process()
    assert look(1) is None, "no command runs"
