"""Files on the machine's own disk: written whole or not at all, copied as cheaply as the disk allows."""

from __future__ import annotations

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
    """Of a file that the job keeps, so many bytes. It may be a pipe that nobody writes to: that is not waited for.

    Raises ``OSError``, or ``ValueError`` where it is no text.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.read(file, most).decode()
    finally:
        os.close(file)


def clear(path: str) -> None:
    """Nothing is there any more, whatever the job has put there. Raises ``OSError``."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def keep_copy(source: str, target: str, size: int, links: bool) -> bool:
    """``target`` with the content of ``source``; answers whether it is the same file under another name.

    A clone or a copy does not change when ``source`` is written to; a link does, and costs neither time nor room.
    """
    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
            return False
        except OSError:
            if not (links and size >= LINK_FROM_BYTES):
                shutil.copyfileobj(old, new, 1 << 20)
                return False
    os.remove(target)
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        return keep_copy(source, target, size, False)
    return True


def is_being_written(paths: set[str], uid: int | None = None) -> bool:
    """Whether a process that we, or that user, can see has one of these files open for writing."""
    if uid is None:
        return is_open_for_writing(paths)
    # In most containers root does not see the open files of other users: their owner looks.
    look = subprocess.run(
        as_user(uid, LOOK),
        input=os.fsencode("\0".join(paths)),  # names need not be text
        capture_output=True,
        timeout=LOOK_TIMEOUT_S,
        check=False,
    )
    return look.stdout == b"True"


def is_open_for_writing(paths: set[str]) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{number}") not in paths:
                    continue
                with open(f"/proc/{pid}/fdinfo/{number}") as info:
                    flags = next(line for line in info if line.startswith("flags:"))
                if int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
        except (OSError, StopIteration, ValueError):
            continue  # gone meanwhile, or not ours to see
    return False


LOOK = (
    "import os,sys\n"
    + inspect.getsource(is_open_for_writing)
    + BECOME
    + ("sys.stdout.write(str(is_open_for_writing(set(os.fsdecode(sys.stdin.buffer.read()).split(chr(0))))))\n")
)
