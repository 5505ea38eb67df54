"""Instances as local processes: a directory is the disk, a supervised process tree the container.

Layout: ``<directory>/<key>/root`` (what the instance sees as ``$AUTOPILOT_ROOT``) and, beside it and out of its
sight, ``console.log`` and, while no container is there, ``volume``. Paths are built from keys that the market chose
only; labels, image names and environments never are.
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
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autopilot_lab.sandbox.apart import OwnNetwork
from autopilot_lab.sandbox.image_traits import traits_of
from autopilot_lab.sandbox.machine_traits import MachineTraits, read_traits
from autopilot_lab.sandbox.programs import cover_unsafe, make_path, writable_place

_log = logging.getLogger(__name__)
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_IMAGES = Path(__file__).with_name("images")
_IMAGE_NAME = re.compile(r"(?:[a-z0-9.-]+(?::\d+)?/)?autopilot/([a-z0-9][a-z0-9_-]*)(?::[\w.-]+)?", re.ASCII)
BOX_ADDRESS = "127.0.0.1"
"""Address of the ports of a box, also if its market shows another one."""
_DIRECTORIES = ("workspace", "root", "tmp")
_EVERYBODYS = (Path("/tmp"), Path("/dev"), Path("/proc"))  # noqa: S108 - as on any machine
PROGRAMS = ".programs"
"""Beside the boxes: what their PATH names."""


@dataclass(frozen=True)
class Launch:
    """What to run. ``mode``: see ``supervisor.py``."""

    image: str
    command: list[str]
    env: dict[str, str]
    mode: str = "container"
    mount: PurePosixPath | None = None
    """Where the volume that outlives the container is mounted; relative, without ``..``."""
    shared: Path | None = None
    """A directory outside the box that is mounted there in place of a volume of its own."""
    network: OwnNetwork | None = None
    """None: that of the sandbox."""


@dataclass(frozen=True)
class Ended:
    """A container that ended by itself."""

    key: str
    boot: int
    code: int


@dataclass(frozen=True)
class _Running:
    boot: int
    supervisor: subprocess.Popen[bytes]


class Boxes:
    """Starts, kills and wipes in order, on one thread of its own, so that no request waits for a process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, _Running] = {}
        self._mounts: dict[str, PurePosixPath] = {}
        """Where the volumes are mounted that have to be kept."""
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-containers")
        # Keys restart with every sandbox: disks of an earlier one must not show through.
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        self._covered = cover_unsafe(self._directory / PROGRAMS / "covered")

    def start(self, key: str, boot: int, launch: Launch) -> None:
        # The disks of all markets lie beside each other, and beside what the machines are to be like.
        self._submit(self._start, key, boot, launch, read_traits(self._directory.parent))

    def terminate(self, key: str) -> None:
        """SIGTERM to the first process; ``kill`` has to follow."""
        self._submit(self._terminate, key)

    def kill(self, key: str) -> None:
        self._submit(self._kill, key)

    def wipe(self, key: str) -> None:
        """Kill, and remove the disk."""
        self._submit(self._wipe, key)

    def wipe_container(self, key: str) -> None:
        """Kill, and remove everything but the volume."""
        self._submit(self._wipe_container, key)

    def beside(self, key: str) -> Path:
        """A directory that lasts as long as the disk, out of the instance's sight."""
        return self._directory / key / "beside"

    def root(self, key: str) -> Path:
        return self._directory / key / "root"

    def console_path(self, key: str) -> Path:
        return self._directory / key / "console.log"

    def console(self, key: str) -> bytes:
        """All output so far; empty when there was none."""
        try:
            return self.console_path(key).read_bytes()
        except FileNotFoundError:
            return b""

    def take_ended(self) -> list[Ended]:
        """Containers that ended by themselves since the last call."""
        found = []
        with self._lock:
            for key, running in self._running.items():
                assert running.supervisor.stdout is not None
                report = running.supervisor.stdout.read()
                if report:
                    found.append(Ended(key, running.boot, int(report.split()[1])))
        return found

    def namespace(self, key: str) -> str | None:
        """Its mounts, for ``nsenter``; None: it does not run."""
        with self._lock:
            running = self._running.get(key)
        return None if running is None else f"/proc/{running.supervisor.pid}/ns/mnt"

    async def settle(self) -> None:
        """Wait until everything asked for so far has happened."""
        await asyncio.wrap_future(self._thread.submit(lambda: None))

    async def close(self) -> None:
        """Kill every instance; disks stay."""
        await self.settle()
        for key in list(self._running):
            self.kill(key)
        await self.settle()
        self._thread.shutdown()

    def _submit(self, task: Callable[..., None], *arguments: object) -> None:
        self._thread.submit(task, *arguments).add_done_callback(_log_failure)

    def _start(self, key: str, boot: int, launch: Launch, traits: MachineTraits | None) -> None:
        self._kill(key)
        root, programs = self._prepare_disk(key, launch), self._directory / key / "bin"
        if traits is not None and not programs.exists():
            traits.write_program(programs)
        path = make_path(self._directory / PROGRAMS, launch.image)
        path = f"{programs}:{path}" if programs.exists() else path
        order = {
            "command": launch.command,
            "env": launch.env | _paths(root) | {"PATH": path},
            "cwd": str(root),
            "mode": launch.mode,
            "writable": self._writable(key, launch),
            "covered": self._covered,
        }
        inside = nullcontext() if launch.network is None else launch.network.enter()
        with self.console_path(key).open("ab") as console, inside:
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
            self._running[key] = _Running(boot, supervisor)

    def _writable(self, key: str, launch: Launch) -> list[str]:
        """Directories: where its disk lies, programs that its image may install, and what any program may write to."""
        installs = writable_place(self._directory / PROGRAMS, launch.image)
        own = [self._directory / key, installs, launch.shared, Path(tempfile.gettempdir())]
        return [str(each) for each in (*own, *_EVERYBODYS) if each is not None and each.is_dir()]

    def _terminate(self, key: str) -> None:
        running = self._running.get(key)
        if running is not None:
            assert running.supervisor.stdin is not None
            running.supervisor.stdin.write(b"terminate\n")

    def _kill(self, key: str) -> None:
        with self._lock:
            running = self._running.pop(key, None)
        if running is not None:
            assert running.supervisor.stdin is not None
            assert running.supervisor.stdout is not None
            running.supervisor.stdin.close()
            running.supervisor.wait()
            running.supervisor.stdout.close()

    def _wipe(self, key: str) -> None:
        self._kill(key)
        shutil.rmtree(self._directory / key, ignore_errors=True)

    def _wipe_container(self, key: str) -> None:
        self._kill(key)
        mount = self._mounts.pop(key, None)
        root, kept = self.root(key), self._directory / key / "volume"
        if not root.is_dir() or root.is_symlink():
            return
        if mount is not None and _is_real_directory(root, mount):
            shutil.rmtree(kept, ignore_errors=True)
            (root / mount).rename(kept)
        shutil.rmtree(root)

    def _prepare_disk(self, key: str, launch: Launch) -> Path:
        root, kept = self.root(key), self._directory / key / "volume"
        if root.is_symlink():
            # What ran there replaced its own disk by a link; the host would mount a directory.
            root.unlink()
        if root.is_dir():
            return root
        root.mkdir(parents=True)
        source = image_directory(launch.image)
        if source is not None:
            shutil.copytree(source, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        fix_directories(root, launch.image)
        for name in _DIRECTORIES:
            (root / name).mkdir(exist_ok=True)
        if launch.mount is not None:
            mounted = root / launch.mount
            mounted.mkdir(parents=True, exist_ok=True)
            if launch.shared is not None:
                launch.shared.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(mounted)
                mounted.symlink_to(launch.shared, target_is_directory=True)
            else:
                self._mounts[key] = launch.mount
                if kept.is_dir():
                    shutil.rmtree(mounted)
                    kept.rename(mounted)
        return root


def image_directory(image: str) -> Path | None:
    """Where the files of ``autopilot/<name>:<tag>`` are, in any registry; ``None``: an empty image."""
    match = _IMAGE_NAME.fullmatch(image)
    if match is None:
        return None
    directory = _IMAGES / match[1]
    return directory if directory.is_dir() else None


def fix_directories(root: Path, image: str) -> None:
    """The sandbox's user may write everywhere: a file in the place of a directory keeps the image's user out."""
    for name in traits_of(image).fixed:
        (root / name).touch()


def _is_real_directory(root: Path, mount: PurePosixPath) -> bool:
    """Whether ``mount`` leads to a directory beneath ``root`` without passing a link that the tenant planted."""
    step = root
    for part in mount.parts:
        step = step / part
        if step.is_symlink():
            return False
    return step.is_dir()


def _paths(root: Path) -> dict[str, str]:
    return {
        "AUTOPILOT_ROOT": str(root),
        "HOME": str(root / "root"),
        "TMPDIR": str(root / "tmp"),
    }


def _log_failure(task: Future[None]) -> None:
    if (error := task.exception()) is not None:
        _log.error("an instance's process could not be handled", exc_info=error)
