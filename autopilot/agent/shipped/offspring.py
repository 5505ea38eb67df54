"""All descendants of the agent: found by who made them, not by what they say of themselves.

A process that loses its parent becomes the agent's child, also after two forks, in a session of its own and with an
empty environment. So all of them are below the agent in the process tree. What the agent runs for itself, like
nvidia-smi, stays in the agent's own session and is none of them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from typing import Any, NamedTuple

PR_SET_CHILD_SUBREAPER = 36
GONE = ("Z", "X")


class SeenProcess(NamedTuple):
    parent: int
    group: int
    session: int
    state: str
    started: int  # since the boot: with the pid it names one process


_started: dict[int, str] = {}
"""Pids of those that the agent itself has made and not yet waited for, with the kind of each."""
_starting = threading.Lock()


def adopt_orphans() -> bool:
    """Whether a process that loses its parent is ours from now on; else it usually is the first process's."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def start_process(kind: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """In a session of its own. Raises ``OSError``, ``ValueError``."""
    with _starting:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        _started[process.pid] = kind
    return process


def forget_process(process: subprocess.Popen[bytes]) -> None:
    """It was waited for: another one may get its pid."""
    with _starting:
        _started.pop(process.pid, None)


def reap() -> None:
    """Take note of the ends of adopted processes. Each keeps its pid until then: nothing else waits for it."""
    with _starting, contextlib.suppress(OSError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in _started or os.getsid(ended.si_pid) == os.getsid(0):
                return  # none, or one that somebody here is about to wait for
            os.waitpid(ended.si_pid, os.WNOHANG)


def list_processes() -> dict[int, SeenProcess]:
    """All that can be seen here, by pid."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):  # gone meanwhile
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            found[int(pid)] = SeenProcess(
                int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[19])
            )
    return found


def list_beneath(root: int, processes: dict[int, SeenProcess]) -> list[int]:
    """Pids of what came of it, children before theirs."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    beneath: list[int] = []
    queue = [root]
    while queue:
        more = children.get(queue.pop(), [])
        beneath += more
        queue += more
    return beneath


def list_offspring(processes: dict[int, SeenProcess]) -> set[int]:
    """Pids of those that live beneath this process, but for what it runs for itself."""
    own = os.getsid(0)
    return {
        pid
        for pid in list_beneath(os.getpid(), processes)
        if processes[pid].session != own and processes[pid].state not in GONE
    }


def list_started(kinds: tuple[str, ...], processes: dict[int, SeenProcess]) -> set[int]:
    """Pids of what the agent has made of these kinds, and of what came of them and still has its parents."""
    with _starting:
        roots = [pid for pid, kind in _started.items() if kind in kinds]
    return {pid for root in roots for pid in (root, *list_beneath(root, processes))}
