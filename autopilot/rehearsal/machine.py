"""One machine of a rehearsal: a directory, the agent in it, and the job's processes beneath it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from autopilot.agent.artifact import agent_source
from autopilot.agent.shipped.markets import OF_MACHINES
from autopilot.agent.shipped.offspring import GONE, list_beneath, list_processes
from autopilot.system import list_processes_with, read_resident_bytes

SPEED = 60
"""Market seconds in a real one, by the agent's clock: it looks and asks so much more often."""
ROOT_VARIABLE = "AUTOPILOT_ROOT"
NOT_PASSED = ("AUTOPILOT_", *OF_MACHINES)
"""Beginnings of variables that belong to a market or to autopilot: no rehearsal may speak for a machine."""
KILL_ROUNDS = 200
ROUND_S = 0.02


class RehearsalMachine:
    def __init__(self, root: Path, workdir: str) -> None:
        self.root, self.workdir = root, root / workdir.lstrip("/")
        self.agent: subprocess.Popen[bytes] | None = None
        self.code: frozenset[Path] = frozenset()

    def furnish(self, put_code: Callable[[Path], None]) -> None:
        """A fresh disk. Raises ``OSError``."""
        self.workdir.mkdir(parents=True)
        put_code(self.workdir)
        self.code = frozenset(self.workdir.rglob("*"))
        self.temporary.mkdir()
        (self.root / "agent.pyz").write_bytes(agent_source())

    def start(self, orders_url: str, grace_s: float, environ: Mapping[str, str]) -> None:
        env = {name: value for name, value in environ.items() if not name.startswith(NOT_PASSED)}
        env |= {
            ROOT_VARIABLE: str(self.root),
            "AUTOPILOT_CLOCK_SPEED": str(SPEED),
            "AUTOPILOT_GRACE_S": str(int(grace_s * SPEED)),
            "TMPDIR": str(self.temporary),
        }
        with self.console.open("ab") as console:
            self.agent = subprocess.Popen(
                [sys.executable, str(self.root / "agent.pyz"), orders_url],
                cwd=self.root, env=env, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                start_new_session=True,
            )  # fmt: skip

    @property
    def temporary(self) -> Path:
        """Its own, as a machine has: what a program leaves there goes with it."""
        return self.root / "temporary"

    @property
    def console(self) -> Path:
        """What the job prints, beside the agent's own lines."""
        return self.root / "console.log"

    @property
    def progress_file(self) -> Path:
        return self.root / "var/lib/autopilot-job/home/progress.json"

    @property
    def mark(self) -> Path:
        return self.workdir / "autopilot-checkpoint"

    def term(self) -> None:
        if self.agent is not None:
            self.agent.send_signal(signal.SIGTERM)

    def job_processes(self) -> list[int]:
        """What the agent runs for itself stays in its own session."""
        if self.agent is None or self.agent.poll() is not None:
            return []
        known = list_processes()
        beneath = list_beneath(self.agent.pid, known)
        return [pid for pid in beneath if known[pid].session != self.agent.pid and known[pid].state not in GONE]

    def processes(self) -> list[int]:
        """Those that came of the agent, and those that bear this machine's mark wherever they went."""
        found = set(list_processes_with(f"{ROOT_VARIABLE}={self.root}"))
        if self.agent is not None and self.agent.poll() is None:
            found |= {self.agent.pid, *list_beneath(self.agent.pid, list_processes())}
        return sorted(found - {os.getpid()})

    async def kill(self) -> None:
        """All of it at once, as a host that is switched off."""
        for _ in range(KILL_ROUNDS):
            found = self.processes()
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if self.agent is not None:
                self.agent.poll()
            if not found:
                return
            await asyncio.sleep(ROUND_S)

    def memory_bytes(self) -> int:
        return sum(read_resident_bytes(pid) for pid in self.job_processes())

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
