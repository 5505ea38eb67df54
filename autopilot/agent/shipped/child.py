"""The job's process: a group of its own, whose output is collected, and of which nothing is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from typing import IO

from .job_user import RUN, as_user, uid_of

MARK = "AUTOPILOT_PROCESS"
DRAIN_S = 10.0


class Child:
    def __init__(self, token: str, take_output: Callable[[bytes], None]) -> None:
        self.token, self.take_output, self.uid = token, take_output, uid_of(token)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ending = False  # asked to end, and not killed yet
        self.pump, self.taking = threading.Thread(), threading.Lock()
        self.unread: Callable[[], bool] = lambda: False  # whether the pipe holds output

    def start(self, kind: str, command: str, workdir: str, env: dict[str, str], uid: int | None) -> None:
        """``uid``: the user; None: the agent's own. Raises ``OSError``, ``ValueError``."""
        shell = ["/bin/sh", "-c", command]
        self.is_ending = False
        self.process = subprocess.Popen(
            shell if uid is None else as_user(uid, RUN, *shell),
            cwd=workdir,
            env={**env, MARK: f"{self.token}-{kind}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        pipe = self.process.stdout
        self.unread = lambda: bool(pipe and not pipe.closed and holds_bytes(pipe))
        self.pump = threading.Thread(target=self.collect, args=(pipe,), daemon=True)
        self.pump.start()

    def collect(self, pipe: IO[bytes]) -> None:
        ready, block = select.poll(), b"..."
        ready.register(pipe, select.POLLIN)
        while block:
            ready.poll()
            with self.taking:
                block = os.read(pipe.fileno(), 65536)
                self.take_output(block)
        with self.taking:
            pipe.close()

    def signal(self, number: int) -> None:
        self.is_ending = number == signal.SIGTERM
        self.send(number)

    def send(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def end(self, look: Callable[[], None]) -> None:
        """Ask it to end. ``look`` is called while it stands still: what it does from then on it does because it was
        asked."""
        self.send(signal.SIGSTOP)
        try:
            look()
        finally:
            self.signal(signal.SIGTERM)
            self.send(signal.SIGCONT)

    def poll(self) -> int | None:
        """The code of a process that has ended since the last look, else None.

        Asked to end, the shell ends at once, and what it has started may still be saving: that is waited for.
        """
        code = self.process.poll() if self.process is not None else None
        if code is None or (self.is_ending and self.has_company()):
            return None
        self.process = None
        return code

    def has_company(self) -> bool:
        """Whether others of the process's group live."""
        assert self.process is not None
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, ValueError):  # gone meanwhile
                with open(f"/proc/{pid}/stat", "rb") as file:
                    state, _, group = file.read().rpartition(b")")[2].split()[:3]
                if int(group) == self.process.pid and state not in (b"Z", b"X"):
                    return True
        return False

    def drain(self) -> None:
        """Wait until all that it wrote has arrived. What it has left running may hold the pipe open, and write on."""
        until = time.monotonic() + DRAIN_S
        while self.pump.is_alive() and time.monotonic() < until:
            if self.taking.acquire(timeout=0.1):  # a console that takes nothing would hold it for ever
                is_empty = not self.unread()
                self.taking.release()
                if is_empty:
                    return
            time.sleep(0.005)

    def sweep(self, kind: str) -> None:
        """Kill what is left of the job's processes, wherever in the process tree they went."""
        mark = f"{MARK}={self.token}-{kind}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # gone meanwhile, or not ours to read
                if self.is_marked(pid, mark):
                    os.kill(int(pid), signal.SIGKILL)

    def is_marked(self, pid: str, mark: bytes) -> bool:
        """In most containers even root may not read the environment of another user: then being his is enough."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return mark in file.read().split(b"\0")
        except PermissionError:
            return os.stat(f"/proc/{pid}").st_uid == self.uid


def holds_bytes(pipe: IO[bytes]) -> bool:
    count = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4)
    return any(count)
