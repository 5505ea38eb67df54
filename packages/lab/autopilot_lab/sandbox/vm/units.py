"""The part of systemd that a unit of ours uses: start, restart on failure, stop by ExecStop within its time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_WANTS = "multi-user.target.wants"


class Unit:
    """One service. ``speed``: its times are market seconds."""

    def __init__(self, path: Path, env: Mapping[str, str], speed: float) -> None:
        self._said = _read(path)
        given = shlex.split(" ".join(self._said.get("Environment", [])))
        self._env = {**env, **dict(each.split("=", 1) for each in given)}
        self._speed = speed
        self._main: subprocess.Popen[bytes] | None = None
        self._is_stopping = threading.Event()

    @property
    def is_active(self) -> bool:
        return self._main is not None and self._main.poll() is None

    def start(self) -> None:
        if self.is_active:
            return
        self._is_stopping.clear()
        self._main = self._spawn("ExecStart")
        threading.Thread(target=self._mind, args=(self._main,), daemon=True).start()

    def stop(self) -> None:
        """ExecStop, then SIGTERM, and SIGKILL once its time is over."""
        self._is_stopping.set()
        within_s = float(self._one("TimeoutStopSec", "90")) / self._speed
        if self._main is None:
            return
        if "ExecStop" in self._said and self.is_active:
            stopping = self._spawn("ExecStop")
            with suppress(subprocess.TimeoutExpired):
                stopping.wait(within_s)
            _kill_group(stopping, signal.SIGKILL)
        _kill_group(self._main, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._main.wait(max(within_s / 10, 1))
        _kill_group(self._main, signal.SIGKILL)
        self._main.wait()

    def _mind(self, main: subprocess.Popen[bytes]) -> None:
        code = main.wait()
        pause_s = float(self._one("RestartSec", "0.1")) / self._speed
        if code and self._one("Restart", "no") == "on-failure" and not self._is_stopping.wait(pause_s):
            self.start()

    def _spawn(self, what: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            shlex.split(self._one(what, "")), env=self._env, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def _one(self, name: str, default: str) -> str:
        return self._said.get(name, [default])[-1]


def enable(directory: Path, name: str) -> None:
    (directory / _WANTS).mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (directory / _WANTS / name).symlink_to(directory / name)


def list_enabled(directory: Path) -> list[Path]:
    return sorted((directory / _WANTS).glob("*.service"))


def _read(path: Path) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            said.setdefault(name.strip(), []).append(value.strip())
    return said


def _kill_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
