"""Virtual machines for a market's emulator: started, asked to shut down, killed and wiped like any box."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from autopilot_lab.sandbox.boxes import Boxes, Ended, Launch
from autopilot_lab.sandbox.vm.config import VmConfig

SIGNAL = "opt/mithril/MITHRIL_SIGNAL.yml"


class VirtualMachines:
    """``<directory>/<key>``: the disk of a machine, its config and its console. See ``boxes.py``.

    The first start of a key boots the user data. A later one boots the same disk: the user data is not run again.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._boxes = Boxes(directory)
        self._short = Path(tempfile.mkdtemp(prefix="ap-vm-"))
        """For sockets, whose paths must be short."""

    def start(self, key: str, boot: int, config: VmConfig) -> None:
        self._config_path(key).parent.mkdir(parents=True, exist_ok=True)
        config.write(self._config_path(key))
        words = [str(self._config_path(key)), str(self._short_of(key))]
        command = [sys.executable, "-m", "autopilot_lab.sandbox.vm.init", *words]
        self._boxes.start(key, boot, Launch(image="", command=command, env={}))

    def shut_down(self, key: str) -> None:
        """As the market's stop does: units are stopped, within their time. It ends by itself (``take_ended``);
        ``kill`` ends what has not after the market's own limit."""
        self._boxes.terminate(key)

    def kill(self, key: str) -> None:
        """Power off at once. The disk stays."""
        self._boxes.kill(key)

    def wipe(self, key: str) -> None:
        """Power off at once, and the disk is gone."""
        self._boxes.wipe(key)

    def set_fault(self, key: str, name: str, what: str) -> None:
        """See ``VmConfig.faults``."""
        config = VmConfig.read(self._config_path(key))
        replace(config, faults={**config.faults, name: what}).write(self._config_path(key))

    def give_notice(self, key: str, instance_status: str, bid_status: str, in_s: float) -> None:
        """Write the market's file: it ends in so many market seconds, by the machine's own clock."""
        speed = VmConfig.read(self._config_path(key)).speed
        ends_at = datetime.fromtimestamp(time.time() + in_s / speed, UTC).isoformat(timespec="milliseconds")
        text = f"instance_status: {instance_status}\nbid_status: {bid_status}\nend_time: {ends_at}\n"
        path = self.root(key) / SIGNAL
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".new")
        scratch.write_text(text)
        os.replace(scratch, path)

    def withdraw_notice(self, key: str) -> None:
        (self.root(key) / SIGNAL).unlink(missing_ok=True)

    async def run_inside(self, key: str, command: list[str]) -> tuple[int, bytes]:
        """A program on that running machine: (exit code, output)."""
        env = json.loads((self._short_of(key) / "env.json").read_text())
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said

    def root(self, key: str) -> Path:
        return self._boxes.root(key)

    def console(self, key: str) -> bytes:
        """All output so far; empty when there was none."""
        return self._boxes.console(key)

    def take_ended(self) -> list[Ended]:
        """Machines that switched off by themselves since the last call, asked to or not."""
        return self._boxes.take_ended()

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await self._boxes.settle()

    async def close(self) -> None:
        """Kill every machine; disks stay."""
        await self._boxes.close()
        shutil.rmtree(self._short, ignore_errors=True)

    def _short_of(self, key: str) -> Path:
        return self._short / hashlib.sha256(key.encode()).hexdigest()[:12]

    def _config_path(self, key: str) -> Path:
        return self._directory / key / "vm.json"
