"""The helper for training code: when it says that a save is due, what it leaves for the agent, and SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from autopilot import checkpoint
from tests.patience import PATIENCE_S

SCRIPT = f"""
import sys, time
sys.path.insert(0, {str(Path(checkpoint.__file__).parents[1])!r})
from autopilot import checkpoint
print("path", checkpoint.path("mine"), flush=True)
for step in range(10_000):
    time.sleep(0.01)
    checkpoint.progress(step, 10_000)
    if checkpoint.should_save():
        checkpoint.saved("state", step=step)
        print("saved", flush=True)
    else:
        print("on", flush=True)
"""


def job(tmp_path: Path) -> subprocess.Popen[str]:
    env = {
        "AUTOPILOT_CHECKPOINT_PATH": "/ckpt",
        "AUTOPILOT_SAVE_REQUEST": str(tmp_path / "request"),
        "AUTOPILOT_CHECKPOINT_MARK": str(tmp_path / "mark"),
        "AUTOPILOT_PROGRESS_FILE": str(tmp_path / "progress"),
    }
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=env, stdout=subprocess.PIPE, text=True)


def test_a_save_is_due_when_the_agent_asks_and_once(tmp_path: Path) -> None:
    with job(tmp_path) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "path /ckpt\n"
        assert running.stdout.readline() == "on\n"
        (tmp_path / "request").touch()
        lines = [running.stdout.readline() for _ in range(20)]
        assert lines.count("saved\n") == 1
        assert json.loads((tmp_path / "mark").read_text())["path"] == "state"
        os.utime(tmp_path / "request", (time.time() - 3600,) * 2)  # the clock was set back meanwhile
        assert "saved\n" in [running.stdout.readline() for _ in range(20)]
        assert 0 < json.loads((tmp_path / "progress").read_text())["progress"] < 0.1
        running.kill()


def test_told_to_end_it_saves_first(tmp_path: Path) -> None:
    with job(tmp_path) as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(2)] == ["path /ckpt\n", "on\n"]
        running.terminate()
        assert running.wait(PATIENCE_S) == 128 + signal.SIGTERM
        assert json.loads((tmp_path / "mark").read_text())["step"] is not None


def test_at_home_it_saves_now_and_then_and_disturbs_nothing(tmp_path: Path) -> None:
    code = SCRIPT.split("for step")[0] + (
        "assert not checkpoint.should_save()\n"
        "every, checkpoint.AT_HOME_EVERY_S = checkpoint.AT_HOME_EVERY_S, 0.01\n"
        "time.sleep(0.02)\n"
        "assert checkpoint.should_save()\n"
        "checkpoint.AT_HOME_EVERY_S = every\n"
        "checkpoint.saved('x', step=1)\n"
        "assert not checkpoint.should_save()\n"
        "checkpoint.progress(1, 2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "path mine\n"
    assert list(tmp_path.iterdir()) == []
