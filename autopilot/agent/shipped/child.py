"""The job's process: a group of its own, whose output is collected, and of which nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO

MARK = "AUTOPILOT_PROCESS"


class Child:
    def __init__(self, token: str, take_output: Callable[[bytes], None]) -> None:
        self.token, self.take_output = token, take_output
        self.process: subprocess.Popen[bytes] | None = None
        self.pump = threading.Thread()

    def start(self, kind: str, command: str, workdir: str, env: dict[str, str]) -> None:
        """Raises ``OSError``, ``ValueError`` when it cannot be started."""
        os.makedirs(workdir, exist_ok=True)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=workdir,
            env={**env, MARK: f"{self.token}-{kind}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pump = threading.Thread(target=self.collect, args=(self.process.stdout,), daemon=True)
        self.pump.start()

    def collect(self, pipe: IO[bytes]) -> None:
        for block in iter(lambda: os.read(pipe.fileno(), 65536), b""):
            self.take_output(block)
        pipe.close()

    def signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def ended(self) -> int | None:
        """The code of a process that has ended since the last look, else None."""
        code = self.process.poll() if self.process is not None else None
        if code is not None:
            self.process = None
        return code

    def drain(self) -> None:
        """Give what it wrote last a moment to arrive."""
        self.pump.join(1)

    def sweep(self, kind: str) -> None:
        """Kill what is left of the job's processes, wherever in the process tree they went."""
        mark = f"{MARK}={self.token}-{kind}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue  # gone meanwhile, or not ours to read
