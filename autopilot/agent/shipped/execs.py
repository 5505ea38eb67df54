"""Commands that the user has run here beside the job: one at a time, each once, and none that is old."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from .child import EXEC, MARK
from .job_user import RUN, as_user
from .log import Log
from .memory import Memory
from .offspring import forget_process, start_process
from .web import Web

LASTS_S = 120.0
"""An order that is older by its sender's clock is not carried out: the machine was paused meanwhile."""
LONGEST_S = 600
MAX_OUTPUT_BYTES = 1000000
MOST_REMEMBERED = 50
BRISK_S, BRISK_POLL_S = 120.0, 2.0
"""After a command there may soon be another one: for so long orders are looked at so often."""
LOOK_S = 0.05
ANSWER_TRIES, ANSWER_PAUSE_S = 3, 2.0
TIMED_OUT_CODE, KILLED_CODE = 124, 137

Surroundings = Callable[[], "tuple[str, dict[str, str], int | None]"]
"""Work directory, environment, and user (None: the agent's own). Raises ``OSError``."""


def fresh_until(order: dict[str, Any], answered_at: float | None, asked_at: float) -> float | None:
    """Until when the order may be begun, by the clock of ``asked_at``; None: it may not.

    ``answered_at``: the date of the very answer that brought it. It was asked for at ``asked_at`` by our own clock,
    which goes on in suspension.
    """
    if answered_at is None:
        return None
    age = answered_at - float(order["issued_at"])
    return asked_at + LASTS_S - abs(age) if abs(age) <= LASTS_S else None


class Execs:
    """``take`` and ``mind`` are called by one thread; each command has one of its own."""

    def __init__(self, memory: Memory, web: Web, log: Log, surroundings: Surroundings) -> None:
        self.memory, self.web, self.log, self.surroundings = memory, web, log, surroundings
        self.order: dict[str, Any] | None = None
        self.fresh_until: float | None = None
        self.thread: threading.Thread | None = None
        self.is_unwanted = threading.Event()
        self.brisk_until = 0.0

    def take(self, order: dict[str, Any] | None, until: float | None) -> None:
        """What the newest orders ask for."""
        self.order, self.fresh_until = order, until
        if order is None:
            self.log.resolve("exec")

    def expect_more(self) -> None:
        self.brisk_until = time.monotonic() + BRISK_S

    @property
    def is_running(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def mind(self, may_run: bool, now: float) -> None:
        """Begin what was asked for, or end what may no longer be. ``now``: by the clock of ``fresh_until``."""
        if self.is_running:
            if not may_run:
                self.is_unwanted.set()
            return
        order = self.order
        if order is None or not may_run or order["id"] in self.memory["execs"]:
            return
        if self.fresh_until is None or now > self.fresh_until:
            self.log.trouble("exec", "a command was requested too long ago, or at an unknown time: it is not run")
            return
        try:  # on the disk before it runs: it runs once, even if this agent is killed
            self.memory.save(execs=[*self.memory["execs"], order["id"]][-MOST_REMEMBERED:])
            self.is_unwanted.clear()
            self.thread = threading.Thread(target=self.carry_out, args=(order,), daemon=True)
            self.thread.start()
        except (OSError, RuntimeError) as error:
            self.log.trouble("exec", str(error))

    def end(self) -> None:
        """The agent ends: the command must not outlive it."""
        self.is_unwanted.set()
        if self.thread is not None:
            self.thread.join(1)

    def carry_out(self, order: dict[str, Any]) -> None:
        try:
            answer = self.run(order["command"], min(order["timeout_s"], LONGEST_S))
        except (OSError, ValueError) as error:
            answer = {
                "exit_code": 127,
                "output": str(error).encode(errors="replace"),
                "is_cut": False,
                "ended": "exited",
            }
        answer["output"] = base64.b64encode(answer["output"]).decode()
        body = json.dumps({"v": 1, "id": order["id"], **answer}).encode()
        for left in reversed(range(ANSWER_TRIES)):
            try:
                self.web.put(order["url"], body)
                break
            except OSError as error:
                self.log.trouble("exec", str(error))
                if left:
                    time.sleep(ANSWER_PAUSE_S)
        self.expect_more()

    def run(self, command: str, timeout_s: float) -> dict[str, Any]:
        """Raises ``OSError``, ``ValueError``."""
        workdir, env, uid = self.surroundings()
        shell = ["/bin/sh", "-c", command]
        process = start_process(
            EXEC,
            shell if uid is None else as_user(uid, RUN, *shell),
            cwd=workdir,
            env={**env, MARK: self.memory["token"] + "-exec"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        kept = bytearray()
        pump = threading.Thread(target=collect, args=(process.stdout, kept), daemon=True)
        pump.start()
        deadline = time.monotonic() + timeout_s
        ended = ""
        while not ended:
            if has_exited(process.pid):
                ended = "exited"
            elif self.is_unwanted.wait(LOOK_S):
                ended = "stopped"
            elif time.monotonic() >= deadline:
                ended = "timed_out"
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
        code = process.wait()
        forget_process(process)
        pump.join(1)
        code = {"timed_out": TIMED_OUT_CODE, "stopped": KILLED_CODE}.get(ended, code if code >= 0 else 128 - code)
        output = bytes(kept)
        is_cut = len(output) > MAX_OUTPUT_BYTES
        return {"exit_code": code, "output": output[:MAX_OUTPUT_BYTES], "is_cut": is_cut, "ended": ended}


def has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def collect(pipe: IO[bytes], kept: bytearray) -> None:
    """All of it is read, so that the command goes on; one byte more than may be sent is kept."""
    for block in iter(lambda: os.read(pipe.fileno(), 65536), b""):
        kept += block[: max(MAX_OUTPUT_BYTES + 1 - len(kept), 0)]
    pipe.close()
