"""Whether the kernel has killed for want of memory, and how much was used: the container's own control group."""

from __future__ import annotations

import contextlib
import os

ROOT, OWN = "/sys/fs/cgroup", "/proc/self/cgroup"
PEAK = ("memory.peak", "memory.max_usage_in_bytes")  # of version 2 and of version 1
LIMIT = ("memory.max", "memory.limit_in_bytes")
EVENTS = ("memory.events", "memory.oom_control")
NO_LIMIT = 1 << 60  # version 1 writes a huge number for none


class Kills:
    """Counted from when a command begins."""

    def __init__(self, root: str = ROOT) -> None:
        self.root, self.before = root, count_kills(root)

    def report(self, code: int) -> dict[str, int] | None:
        """Peak and limit in bytes after a command that ended with ``code``; None: it was not killed for memory.

        The kernel kills one process of many: the command may then end with a code of its own.
        """
        limit = memory_limit(self.root)
        if not code or not limit or count_kills(self.root) <= self.before:
            return None
        return {"peak": read_number(self.root, PEAK) or limit, "limit": limit}


def count_kills(root: str = ROOT) -> int:
    for path in list_files(root, EVENTS):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            for line in file:
                word, _, value = line.partition(" ")
                if word == "oom_kill":
                    return int(value)
    return 0


def memory_limit(root: str = ROOT) -> int | None:
    """Bytes that may be used here: the container's share, or all that the host has."""
    known = [read_number(root, LIMIT), host_memory()]
    return min((each for each in known if each), default=None)


def memory_share(root: str = ROOT) -> int | None:
    """Bytes of the container's own share; None: it has no limit below what its host has, which says nothing of what was
    rented."""
    limit, host = read_number(root, LIMIT), host_memory()
    return limit if limit and (host is None or limit < host) else None


def host_memory() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    return None


def read_number(root: str, names: tuple[str, ...]) -> int | None:
    for path in list_files(root, names):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            read = int(file.read())  # "max" is no number, and no limit
            return read if read < NO_LIMIT else None
    return None


def list_files(root: str, names: tuple[str, ...]) -> list[str]:
    """Where they may be: in the own group, or, where a container sees no path above its own, at the top."""
    own: list[str] = []
    with contextlib.suppress(OSError, ValueError), open(OWN) as file:
        for line in file:
            _, kinds, path = line.rstrip("\n").split(":", 2)
            if not kinds or "memory" in kinds.split(","):
                own.append(os.path.join(root, "memory" if kinds else "", path.strip("/")))
    return [os.path.join(place, name) for place in (*own, root, os.path.join(root, "memory")) for name in names]
