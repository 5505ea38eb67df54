"""Files on the machine's own disk: written whole or not at all, copied as cheaply as the disk allows."""

from __future__ import annotations

import errno
import fcntl
import inspect
import json
import os
import shutil
import subprocess
from typing import Any

from .job_user import BECOME, as_user

FICLONE = 0x40049409
LINK_FROM_BYTES = 32 << 20
LOOK_TIMEOUT_S = 20
COPY_BYTES = 1 << 20
CLOSED, OPEN, MAPPED = "", "o", "m"
"""What a process has of a file to write to it."""


def write_json(path: str, value: Any) -> None:
    """The old file or the whole new one, also after a power cut."""
    with open(path + ".tmp", "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def read_json(path: str) -> Any:
    """None when there is none, or it cannot be read."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def read_start(path: str, most: int) -> str:
    """The first ``most`` bytes of a file of the job's. It may be a pipe without a writer: this does not wait for one.

    Raises ``OSError``, or ``ValueError`` if it is no text.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.read(file, most).decode()
    finally:
        os.close(file)


def clear(path: str) -> None:
    """Removes anything that the job has put there. Raises ``OSError``."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def keep_copy(source: str, target: str, size: int, links: bool) -> bool:
    """``target`` with the first ``size`` bytes of ``source``; answers whether it is the same file under another name.

    A clone or a copy does not change when ``source`` is written to; a link does, and costs neither time nor room. Holes
    stay holes.
    """
    with open(source, "rb", buffering=0) as old, open(target, "xb", buffering=0) as new:
        try:
            fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
            new.truncate(size)
            return False
        except OSError:
            if not (links and size >= LINK_FROM_BYTES):
                copy_data(old.fileno(), new.fileno(), size)
                return False
    os.remove(target)
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        return keep_copy(source, target, size, False)
    return True


def copy_data(source: int, target: int, size: int) -> None:
    """What is no hole. Raises ``OSError``."""
    os.ftruncate(target, size)
    at = 0
    while at < size:
        start, end = next_data(source, at, size)
        while start < end:
            block = os.pread(source, min(end - start, COPY_BYTES), start)
            if not block:
                return  # shorter than it was: who compares finds it
            start += os.pwrite(target, block, start)
        at = end


def next_data(file: int, at: int, size: int) -> tuple[int, int]:
    """Where data begins and ends from ``at`` on."""
    try:
        start = os.lseek(file, at, os.SEEK_DATA)
        return min(start, size), min(os.lseek(file, start, os.SEEK_HOLE), size)
    except OSError as error:
        # Behind ``at`` there is nothing but a hole; or the disk cannot tell holes.
        return (size, size) if error.errno == errno.ENXIO else (at, size)


def list_uses(paths: set[str], uid: int | None = None) -> dict[str, str]:
    """Which of these files a process that we, or that user, can see has open for writing, or mapped: ``OPEN`` or
    ``MAPPED``, by path. What only appends has no file open that could be torn."""
    if uid is None:
        return dict(find_uses(paths))
    # In most containers root does not see the open files of other users: their owner looks.
    look = subprocess.run(
        as_user(uid, LOOK),
        input=os.fsencode("\0".join(paths)),  # names need not be text
        capture_output=True,
        timeout=LOOK_TIMEOUT_S,
        check=False,
    )
    rows = filter(None, os.fsdecode(look.stdout).split("\0"))
    return {row[1:]: row[0] for row in rows}


def find_uses(paths: set[str]) -> list[tuple[str, str]]:
    """(path, use) of each. It runs alone as well, as another user: nothing of this module is there then."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # gone meanwhile, or not ours to see
        for number in numbers:
            try:
                path = os.readlink(f"/proc/{pid}/fd/{number}")
                if path not in paths or path in found:
                    continue
                with open(f"/proc/{pid}/fdinfo/{number}") as info:
                    flags = int(next(line for line in info if line.startswith("flags:")).split()[1], 8)
            except (OSError, StopIteration, ValueError):
                continue  # closed meanwhile
            if flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_APPEND:
                found[path] = "o"
        found.update((path, "m") for path in find_mapped(pid, paths))
    return list(found.items())


def find_mapped(pid: str, paths: set[str]) -> list[str]:
    """Which of them that process has mapped so that it can write to them."""
    try:
        with open(f"/proc/{pid}/maps", errors="surrogateescape") as maps:
            shared = [line.rstrip("\n").split(None, 5) for line in maps if "w-s " in line or "wxs " in line]
    except OSError:
        return []
    return [row[5] for row in shared if len(row) == 6 and row[5] in paths]


LOOK = (
    "from __future__ import annotations\nimport os,sys\n"
    + inspect.getsource(find_uses)
    + inspect.getsource(find_mapped)
    + BECOME
    + "p=set(os.fsdecode(sys.stdin.buffer.read()).split(chr(0)))\n"
    + "sys.stdout.buffer.write(os.fsencode(chr(0).join(u+n for n,u in find_uses(p))))\n"
)
