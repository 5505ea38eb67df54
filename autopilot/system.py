"""What Linux and macOS offer differently, and nothing else. Standard library only.

Every test runs on Linux. The parts for macOS follow its manual pages and headers, and were never run there.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

MACOS = "darwin"
IS_MACOS = sys.platform == MACOS

CLOCK_WITH_SLEEP: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It counts the time in which the machine sleeps: on macOS CLOCK_MONOTONIC does, on Linux CLOCK_BOOTTIME alone."""

_OOM_SCORE = "500"
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1
"""sys/un.h of macOS: of a unix socket, the credentials of the process that connected."""
_XUCRED = struct.Struct("=IIh2x16I")
"""sys/ucred.h of macOS: version, uid, number of groups, groups."""


def read_peer_uid(peer: socket.socket) -> int:
    """The uid at the other end of a unix socket, as the kernel states it. Raises ``OSError``."""
    if IS_MACOS:
        return parse_xucred(peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def parse_xucred(raw: bytes) -> int:
    """The uid in an answer of macOS. Raises ``OSError`` for another version of it than the one that is known."""
    if len(raw) < _XUCRED.size or (fields := _XUCRED.unpack_from(raw))[0] != 0:
        raise OSError("the kernel's answer on who is at the other end of the socket is not understood")
    uid: int = fields[1]
    return uid


def pack_file_lock(kind: int, start: int, length: int, *, macos: bool = IS_MACOS) -> bytes:
    """``struct flock`` for a range that is counted from the file's begin."""
    if macos:
        return struct.pack("qqihh", start, length, 0, kind, os.SEEK_SET)
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


def find_awake_command(*, macos: bool = IS_MACOS) -> tuple[str, ...] | None:
    """What keeps the system from sleep until its standard input ends; None: the system has no tool for it.

    A Mac on its battery sleeps all the same when its lid is closed.
    """
    tool = "caffeinate" if macos else "systemd-inhibit"
    if (found := shutil.which(tool)) is None:
        return None
    if macos:
        return found, "-i", "-s", "cat"
    why = "--why=rented machines save their work here"
    return found, "--what=sleep:idle:handle-lid-switch", "--who=autopilot", why, "--mode=block", "cat"


def count_usable_cores() -> int:
    """Those that this process may use, where the system says so; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def offer_to_end_first() -> None:
    """When memory runs out, the kernel ends this process before any other; only Linux can be told."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def limit_own_memory(most_bytes: int) -> None:
    """Of this process. macOS counts what all processes share as well, so no limit is set there."""
    if IS_MACOS:
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


def list_processes_with(variable: str) -> list[int]:
    """The processes that were started with this ``NAME=value`` in their environment, as far as it may be read.

    Linux alone has such a list.
    """
    mark, found = variable.encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            is_gone = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
            if not is_gone and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(int(pid))
    return found


def read_resident_bytes(pid: int) -> int:
    """The memory that a process holds; 0 once it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
