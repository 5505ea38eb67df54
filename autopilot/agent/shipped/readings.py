"""What heartbeats say of the machine beside the job, and for how long nothing was new of its command."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .gpus import read_gpus

LASTS_S = 60.0  # real seconds for which a reading is good: a driver or a disk that hangs says nothing
NOTHING: dict[str, Any] = {"gpus": None, "disk_free": None, "load": None}
MOST_BYTES, MOST_LOAD = 2**53, 1e6  # the daemon takes no more for possible


class Readings:
    """The newest of the machine. ``take`` may hang with a driver or a disk and has a thread of its own."""

    def __init__(self, second: float) -> None:
        """``second``: one real second in market seconds."""
        self.lasts = LASTS_S * second
        self.newest: tuple[float, dict[str, Any]] = (0.0, NOTHING)

    def take(self, workdir: str, runs: bool, now: Callable[[], float]) -> None:
        """``runs``: whether the command does; else the GPUs are not read."""
        found = {"gpus": read_gpus() if runs else None, "disk_free": disk_free(workdir), "load": load()}
        self.newest = (now(), found)

    def at(self, now: float) -> dict[str, Any]:
        taken_at, found = self.newest
        return found if now - taken_at <= self.lasts else NOTHING


class Stillness:
    """Counts the seconds in which nothing was new of the command: neither output nor progress, and idle GPUs.

    Seconds in which it is unknown whether the GPUs were idle neither count nor reset the count.
    """

    def __init__(self, now: float) -> None:
        self.seen_at, self.seconds = now, 0.0
        self.said: Any = None
        self.is_known = False

    def look(self, now: float, said: Any, busy: bool | None) -> None:
        """``said``: what changes with each output and each progress; ``busy``: whether a GPU is, None: unknown."""
        passed, self.seen_at = now - self.seen_at, now
        if busy or said != self.said:
            self.seconds = 0.0
        elif busy is not None:
            self.seconds += passed
        self.said, self.is_known = said, busy is not None

    def count(self) -> float | None:
        return round(self.seconds, 1) if self.is_known else None


def disk_free(path: str) -> int | None:
    """Bytes that are free for the job."""
    try:
        found = os.statvfs(path)
    except (OSError, ValueError):
        return None
    return min(found.f_bavail * found.f_frsize, MOST_BYTES)


def load() -> float | None:
    try:
        return min(round(os.getloadavg()[0], 2), MOST_LOAD)
    except OSError:
        return None
