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
from .offspring import (
    GONE,
    SeenProcess,
    forget_process,
    list_beneath,
    list_offspring,
    list_processes,
    list_started,
    reap,
    start_process,
)

MARK = "AUTOPILOT_PROCESS"
KINDS = SETUP, RUN_KIND, EXEC, SSH = "setup", "run", "exec", "ssh"
"""Kinds of processes that the agent starts. Each has its kind in its environment."""
DRAIN_S = 10.0
SWEEP_S = 2.0
"""How long the dead may take to be gone: a process in the midst of a driver's call ends after it."""


class Child:
    def __init__(self, token: str, take_output: Callable[[bytes], None]) -> None:
        self.token, self.take_output, self.uid = token, take_output, uid_of(token)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ending = False  # asked to end, and not killed yet
        self.pump, self.taking = threading.Thread(), threading.Lock()
        self.unread: Callable[[], bool] = lambda: False  # whether the pipe holds output
        self.before: set[tuple[int, int]] = set()  # of what a setup has left for the run: pid, and when it was started
        self.left: list[int] = []  # of the last run: what could not be killed

    def start(self, kind: str, shell: list[str], workdir: str, env: dict[str, str], uid: int | None) -> None:
        """``uid``: the user; None: the agent's own. Raises ``OSError``, ``ValueError``."""
        self.is_ending = False
        processes = list_processes()
        found = list_offspring(processes) - {*self.left} if kind == RUN_KIND else ()
        self.before = {(pid, processes[pid].started) for pid in found}
        self.process = start_process(
            kind,
            shell if uid is None else as_user(uid, RUN, *shell),
            cwd=workdir,
            env={**env, MARK: f"{self.token}-{kind}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
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
        """Ask it to end. ``look`` is called while it is paused: all that it does later is a response to the request."""
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
        if self.process is not None:
            forget_process(self.process)
        self.process = None
        return code

    def has_company(self) -> bool:
        """Whether others of the process's group live."""
        assert self.process is not None
        group = self.process.pid
        return any(each.group == group and each.state not in GONE for each in list_processes().values())

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

    def sweep(self, kind: str) -> list[int]:
        """Kill what is left of the job's processes, wherever they went. Answers what lives on all the same."""
        until, left = time.monotonic() + SWEEP_S, self.find_left(kind)
        while left and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            reap()
            left = self.find_left(kind)
        if kind == RUN_KIND:
            self.left = left
        return left

    def find_left(self, kind: str) -> list[int]:
        """Those with the mark of that kind. Of a run, or a setup that has failed, all that came of it besides; of a run
        all of the job's user, too."""
        processes = list_processes()
        unmarked: set[int] = set()
        if kind in (SETUP, RUN_KIND):
            unmarked = list_offspring(processes) - self.list_spared(kind, processes)
        left = []
        for pid, process in processes.items():
            told = self.read_kind(pid)
            if process.state in GONE:
                continue
            if told == kind or (not told and (pid in unmarked or (kind == RUN_KIND and self.is_users(pid)))):
                left.append(pid)
        return left

    def list_spared(self, kind: str, processes: dict[int, SeenProcess]) -> set[int]:
        """What is beside a run: commands of the user's, logins, and what the setup has left."""
        beside = list_started(tuple(each for each in KINDS if each != kind), processes)
        known = {pid for pid, started in self.before if pid in processes and processes[pid].started == started}
        return beside | {each for pid in known for each in (pid, *list_beneath(pid, processes))}

    def read_kind(self, pid: int) -> str:
        """By its mark. Empty if it has none or cannot be read: in most containers not even root may."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                told = [
                    each[len(MARK) + 1 :] for each in file.read().split(b"\0") if each.startswith(MARK.encode() + b"=")
                ]
        except OSError:
            return ""
        token, _, kind = told[0].decode(errors="replace").partition("-") if told else ("", "", "")
        return kind if token == self.token else token  # of another machine, where several share a kernel

    def is_users(self, pid: int) -> bool:
        with contextlib.suppress(OSError):  # gone meanwhile
            return os.stat(f"/proc/{pid}").st_uid == self.uid
        return False


def holds_bytes(pipe: IO[bytes]) -> bool:
    count = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4)
    return any(count)
