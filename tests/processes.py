"""Daemons and markets of tests as processes of their own, forked from one that has imported the program already.

Each is started by ``multiprocessing``'s fork server: imports are two thirds of what a daemon takes to its first answer.
What is killed, stopped and waited for is the process itself, as with ``subprocess.Popen``.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_IMPORTED = [
    "autopilot.cli.main",
    "autopilot.cli.service",
    "autopilot.service.main",
    *(f"autopilot.providers.{market}.plugin" for market in ("vastai", "runpod", "mithril", "nebius")),
    "autopilot.lab.sandbox.server",
]


class ForkedProcess:
    """``python -m MODULE WORDS`` with its output appended to ``log``. Has what tests use of ``subprocess.Popen``."""

    def __init__(self, module: str, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        self._process = context.Process(target=_become, args=(module, list(words), dict(environment), str(log)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Raises ``subprocess.TimeoutExpired``."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode

    def send_signal(self, signal_: signal.Signals | int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal_)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _become(module: str, words: list[str], environment: dict[str, str], log: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
