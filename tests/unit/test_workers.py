"""Processes that share out work end when the one that began them is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

PROGRAM = """
import threading

from autopilot.workers import workers


def prepare(word):
    print(word, flush=True)


def task(_):
    threading.Event().wait()


if __name__ == "__main__":
    with workers(2, prepare, "ready") as pool:
        list(pool.map(task, range(2)))
"""


def test_they_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        parent.send_signal(signal.SIGKILL)
        # The pipe is theirs as well: it ends with the last of them, and no sooner.
        assert parent.communicate(timeout=PATIENCE_S)[0] == ""
