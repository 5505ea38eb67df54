"""A unix socket that only its owner can open."""

from __future__ import annotations

import socket
import stat
from pathlib import Path


def bind_own(path: Path) -> socket.socket:
    """Bound at ``path`` with mode 0600 before anybody can see it, in the place of a socket that was left there.

    A directory that is missing is made for its owner alone. Raises ``OSError``, also for what is no socket there.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        raise FileExistsError(f"{path} is there, and is no socket")
    scratch = path.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.setblocking(False)
        bound.bind(str(scratch))
        scratch.chmod(0o600)
        scratch.replace(path)  # it has its mode before others could connect: it listens later
    except BaseException:
        bound.close()
        raise
    return bound
