"""The job's process, asked to end: what its shell has started may still be saving."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from autopilot.agent.shipped import child as child_module
from autopilot.agent.shipped.child import Child
from tests.patience import until

TOKEN = "0123456789abcdef"
SAVER = """
import os, signal, sys
def save(*_):
    open("asked", "w").close()
    open("go", "rb").read()
    open("saved", "w").write("whole")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open("ready", "w").close()
while True:
    signal.pause()
"""


def sh(command: str) -> list[str]:
    return ["/bin/sh", "-c", command]


def started(directory: Path) -> Child:
    (directory / "saver.py").write_text(SAVER)
    os.mkfifo(directory / "go")
    child = Child(TOKEN, lambda _: None)
    # As in a job file: no exec, so that a shell is in between.
    child.start("run", sh(f'"{sys.executable}" saver.py\necho done'), str(directory), dict(os.environ), None)
    until((directory / "ready").exists)
    return child


def test_a_job_behind_its_shell_has_the_time_to_save(tmp_path: Path) -> None:
    child = started(tmp_path)
    child.signal(signal.SIGTERM)
    until((tmp_path / "asked").exists)
    assert child.process is not None
    until(lambda: child.process is not None and child.process.poll() is not None)
    assert child.poll() is None
    (tmp_path / "go").write_bytes(b"")
    assert until(lambda: child.poll()) == -signal.SIGTERM
    assert (tmp_path / "saved").read_text() == "whole"


def test_once_killed_it_has_ended(tmp_path: Path) -> None:
    child = started(tmp_path)
    child.signal(signal.SIGTERM)
    until((tmp_path / "asked").exists)
    child.signal(signal.SIGKILL)
    assert until(lambda: child.poll()) in (-signal.SIGTERM, -signal.SIGKILL)
    assert not (tmp_path / "saved").exists()


def test_a_shell_that_ends_by_itself_does_not_wait(tmp_path: Path) -> None:
    child = Child(TOKEN, lambda _: None)
    child.start("run", sh("sleep 1000 & exit 3"), str(tmp_path), dict(os.environ), None)
    try:
        assert until(lambda: child.poll()) == 3
    finally:
        child.sweep("run")


def test_what_cannot_be_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process in the midst of a driver's call: the machine may be given no other task then."""
    child = Child(TOKEN, lambda _: None)
    child.start("run", sh("setsid sleep 1000 & exit 3"), str(tmp_path), dict(os.environ), None)
    until(lambda: child.poll() == 3)
    with monkeypatch.context() as patched:
        patched.setattr(child_module, "SWEEP_S", 0.05)
        patched.setattr(os, "kill", lambda pid, number: None)
        (left,) = child.sweep("run")
    assert child.left == [left]
    child.start("run", sh("exit 4"), str(tmp_path), dict(os.environ), None)
    until(lambda: child.poll() == 4)
    assert child.sweep("run") == [], "it was no part of a setup: the next end is its end, too"
