"""The agent's own object, on a directory in place of a machine's disk: what it does around its state machine."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped.agent import Agent
from autopilot.agent.shipped.disk import OPEN, list_uses
from autopilot.agent.shipped.states import UNSAVED
from autopilot.agent.shipped.tree import fingerprint

ORDERS: dict[str, Any] = {
    "seq": 1,
    "permit_ttl_s": 900,
    "run_epoch": 1,
    "role": "save_and_stop",
    "instance": "",
    "checkpoint_interval_s": 600,
    "next_orders_url": "http://127.0.0.1:1/orders",
    "put_urls": {"headers": {}},
    "restore": None,
    "work": {
        **{
            "run": "train",
            "setup": "",
            "workdir": "/workspace",
            "inputs": {},
            "outputs": [],
            "checkpoint_path": "ckpt",
        },
        **{"env": {}, "as_root": True, "progress": "", "stall_s": 0, "stall_fails": False, "estimate_s": None},
    },
}


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("AUTOPILOT_ROOT", str(tmp_path))
    for name in ("CONTAINER_ID", "RUNPOD_POD_ID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "workspace").mkdir()
    return Agent("http://127.0.0.1:1/orders")


def test_a_thread_that_cannot_be_started_is_a_try_that_failed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the machine would never be destroyed once its job has used up all threads for a moment."""

    def exhausted(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    agent.machine.permit_until = agent.now()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", exhausted)
        assert agent.step() == "destroy"
    assert agent.machine.tasks.keys() == {"destroy"}
    agent.step()
    assert agent.machine.tasks == {}
    assert agent.machine.tries["destroy"].not_before > agent.now()


def test_the_word_that_a_job_says_last_of_all_is_heard(agent: Agent, tmp_path: Path) -> None:
    agent.take_in(("orders", ORDERS, None))
    agent.machine.begin_process("run", agent.now())
    mark = tmp_path / "workspace/autopilot-checkpoint"
    mark.touch()
    agent.child.pump.start()
    agent.finish(0)
    assert agent.machine.mark == mark.stat().st_mtime_ns


def test_after_a_reboot_the_word_of_the_run_before_counts(agent: Agent, tmp_path: Path) -> None:
    """What was written after it is half a checkpoint, and is not sent as the newest one."""
    mark = tmp_path / "workspace/autopilot-checkpoint"
    mark.touch()
    agent.take_in(("orders", ORDERS, None))
    agent.machine.disk = UNSAVED
    assert agent.machine.decide(agent.now()) == "checkpoint"
    assert agent.machine.upload.whole_at == mark.stat().st_mtime_ns


def test_a_heartbeat_for_the_next_run_tells_nothing_of_the_one_before(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The orders for it come while the heartbeat is put together, from another thread."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(agent.web, "put", lambda _, body: said.append(json.loads(body)))
    urls = {"headers": {}, "heartbeat": "http://127.0.0.1:1/heartbeat"}
    orders = {**ORDERS, "role": "run", "job": "a", "put_urls": urls}
    agent.take_in(("orders", orders, None))
    agent.machine.begin_process("run", agent.now())
    agent.machine.end_process(0, agent.now(), "")
    Path(agent.progress.path).write_text('{"step": 7}')
    read, step = agent.progress.read, threading.Thread(target=agent.step, daemon=True)

    def read_while_orders_come() -> tuple[int | None, float | None]:
        agent.events.put(("orders", {**orders, "seq": 2, "run_epoch": 2, "job": "b"}, None))
        step.start()
        step.join(0.1)
        return read()

    with monkeypatch.context() as patch:
        patch.setattr(agent.progress, "read", read_while_orders_come)
        agent.beat()
    step.join()
    agent.beat()
    assert [(beat["run_epoch"], beat["step"]) for beat in said] == [(1, 7), (2, None)]


def test_what_was_restored_from_a_machine_whose_clock_ran_ahead_is_not_newer(agent: Agent, tmp_path: Path) -> None:
    checkpoint, now = tmp_path / "workspace/ckpt", time.time_ns()
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    os.utime(checkpoint / "config.json", ns=(now, now + 7_200 * 10**9))
    agent.keeper.seen = fingerprint(str(checkpoint))
    assert not agent.keeper.is_newer(str(checkpoint), now)
    (checkpoint / "weights").write_text("half")
    os.utime(checkpoint / "weights", ns=(now, now + 10**9))
    assert agent.keeper.is_newer(str(checkpoint), now)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks as another user")
def test_files_whose_names_are_no_text_can_be_looked_for(tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")
    with open(name, "w"):
        assert list_uses({name}) == {name: OPEN}
    assert not list_uses({name}, 65534)
