"""Instances as local processes: a directory is the disk, a supervised process tree the container.

Layout: ``<state_dir>/instances/<id>/root`` (what the instance sees as ``$AUTOPILOT_ROOT``) and, beside it and out of
its sight, ``console.log``. Paths are built from instance ids only; labels, image names and environments never are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autopilot.sandbox.market.instances import Instance

_log = logging.getLogger(__name__)
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_IMAGES = Path(__file__).with_name("images")
_IMAGE_NAME = re.compile(r"autopilot/([a-z0-9][a-z0-9_-]*)(?::[\w.-]+)?", re.ASCII)
_DIRECTORIES = ("workspace", "root", "tmp")
_LOGIN_RUNTYPES = ("ssh", "jupyter")


@dataclass(frozen=True)
class Exit:
    instance_id: int
    boot: int
    code: int


@dataclass(frozen=True)
class _Running:
    boot: int
    supervisor: subprocess.Popen[bytes]


class LocalContainers:
    """Starts, kills and wipes in order, on one thread of its own, so that no request waits for a process."""

    def __init__(self, state_dir: Path, environment: Callable[[Instance], dict[str, str]]) -> None:
        """``environment`` gives what the provider sets for an instance, besides what is set here."""
        self._directory = state_dir / "instances"
        self._environment = environment
        self._running: dict[int, _Running] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-containers")
        # Instance ids begin anew with every sandbox: disks of an earlier one must not show through.
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)

    def start(self, instance: Instance) -> None:
        root = self.root(instance.id)
        order: dict[str, object] = {
            "command": _command(instance),
            "env": _user_environment(instance) | self._environment(instance) | _paths(root),
            "cwd": str(root),
            "mode": "service" if (instance.order.runtype or "").startswith(_LOGIN_RUNTYPES) else "container",
        }
        self._submit(self._start, instance.id, instance.boots, instance.order.image, order)

    def kill(self, instance_id: int) -> None:
        self._submit(self._kill, instance_id)

    def wipe(self, instance_id: int) -> None:
        self._submit(self._wipe, instance_id)

    def root(self, instance_id: int) -> Path:
        return self._directory / str(instance_id) / "root"

    def console(self, instance_id: int) -> bytes:
        """All output so far; empty when there was none."""
        try:
            return self._console_path(instance_id).read_bytes()
        except FileNotFoundError:
            return b""

    def exits(self) -> list[Exit]:
        """Containers that ended by themselves since the last call."""
        found = []
        with self._lock:
            for instance_id, running in self._running.items():
                assert running.supervisor.stdout is not None
                report = running.supervisor.stdout.read()
                if report:
                    found.append(Exit(instance_id, running.boot, int(report.split()[1])))
        return found

    async def settled(self) -> None:
        """Wait until everything asked for so far has happened."""
        await asyncio.wrap_future(self._thread.submit(lambda: None))

    async def close(self) -> None:
        """Kill every instance; disks stay."""
        await self.settled()
        for instance_id in list(self._running):
            self.kill(instance_id)
        await self.settled()
        self._thread.shutdown()

    def _submit(self, task: Callable[..., None], *arguments: object) -> None:
        self._thread.submit(task, *arguments).add_done_callback(_log_failure)

    def _start(self, instance_id: int, boot: int, image: str, order: dict[str, object]) -> None:
        self._kill(instance_id)
        self._prepare_disk(instance_id, image)
        with self._console_path(instance_id).open("ab") as console:
            supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=console,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
                bufsize=0,
            )
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdin.write(json.dumps(order).encode() + b"\n")
        os.set_blocking(supervisor.stdout.fileno(), False)
        with self._lock:
            self._running[instance_id] = _Running(boot, supervisor)

    def _kill(self, instance_id: int) -> None:
        with self._lock:
            running = self._running.pop(instance_id, None)
        if running is not None:
            assert running.supervisor.stdin is not None
            assert running.supervisor.stdout is not None
            running.supervisor.stdin.close()
            running.supervisor.wait()
            running.supervisor.stdout.close()

    def _wipe(self, instance_id: int) -> None:
        self._kill(instance_id)
        shutil.rmtree(self._directory / str(instance_id), ignore_errors=True)

    def _prepare_disk(self, instance_id: int, image: str) -> None:
        root = self.root(instance_id)
        if root.is_symlink():
            # What ran there replaced its own disk by a link; the host would mount a directory.
            root.unlink()
        if not root.is_dir():
            root.mkdir(parents=True)
            source = image_directory(image)
            if source is not None:
                shutil.copytree(source, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            for name in _DIRECTORIES:
                (root / name).mkdir(exist_ok=True)

    def _console_path(self, instance_id: int) -> Path:
        return self._directory / str(instance_id) / "console.log"


def image_directory(image: str) -> Path | None:
    """Where the files of ``autopilot/<name>:<tag>`` are; ``None`` for any other image, which starts out empty."""
    match = _IMAGE_NAME.fullmatch(image)
    if match is None:
        return None
    directory = _IMAGES / match[1]
    return directory if directory.is_dir() else None


def _log_failure(task: Future[None]) -> None:
    if (error := task.exception()) is not None:
        _log.error("an instance's process could not be handled", exc_info=error)


def _command(instance: Instance) -> list[str]:
    order = instance.order
    if order.args:
        return [*([order.onstart] if order.onstart else []), *order.args]
    if order.onstart:
        return ["sh", "-c", order.onstart]
    return ["sleep", "infinity"]


def _user_environment(instance: Instance) -> dict[str, str]:
    """What the customer set; keys like ``-p 8000:8000`` are docker options, not variables."""
    return {key: value for key, value in instance.order.env if not key.startswith("-")}


def _paths(root: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "AUTOPILOT_ROOT": str(root),
        "HOME": str(root / "root"),
        "TMPDIR": str(root / "tmp"),
        "DATA_DIRECTORY": str(root / "workspace"),
    }
