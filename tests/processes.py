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
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_IMPORTED = [
    "autopilot.cli.main",
    "autopilot.cli.service",
    "autopilot.service.main",
    *(f"autopilot.providers.{market}.plugin" for market in ("vastai", "runpod", "mithril", "nebius")),
    "autopilot_lab.sandbox.server",
]


class ForkedProcess:
    """``python -m MODULE WORDS`` with its output appended to ``log``. Has what tests use of ``subprocess.Popen``.

    ``errors``: of what it writes to stderr, where that is kept apart. ``stdin``: what it reads.
    """

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        errors: Path | None = None,
        stdin: Path = Path(os.devnull),
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        files = stdin, log, errors or log
        self._process = context.Process(target=_become, args=(module, list(words), dict(environment), files))
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


def run_forked(
    module: str, words: Sequence[str], environment: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run``: to its end, with all that it wrote. Raises ``subprocess.TimeoutExpired``."""
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        given, output, errors = (Path(name) / each for each in ("in", "out", "err"))
        given.write_text(stdin)
        process = ForkedProcess(module, words, environment, output, errors, given)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess([module, *words], code, output.read_text(), errors.read_text())


def _become(module: str, words: list[str], environment: dict[str, str], files: tuple[Path, Path, Path]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    flags = os.O_RDONLY, *(os.O_WRONLY | os.O_CREAT | os.O_APPEND,) * 2
    for number, (path, flag) in enumerate(zip(files, flags, strict=True)):
        descriptor = os.open(path, flag, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The fork server's own stdin is closed in its children.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
