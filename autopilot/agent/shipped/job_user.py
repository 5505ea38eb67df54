"""Whom the job runs as: a user of its own where the machine lets it, who can read neither the agent nor its keys.

The agent is root in most images, and so is the market's own shell, whose environment holds the machine's key: any
process of root can read that. What a job needs root for belongs into its ``setup``.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
import sys

FIRST_UID, UIDS = 50000, 10000
"""Beneath the 65,536 that a container with users of its own has; an image's own users lie far below."""
TRY_TIMEOUT_S = 20
BECOME = "import os,sys\nu=int(sys.argv[1])\nos.setgroups([])\nos.setgid(u)\nos.setuid(u)\n"
# A program that opens /dev/stdout must own the pipe.
RUN = "import os,sys\nos.fchown(1,int(sys.argv[1]),-1)\n" + BECOME + "os.execv(sys.argv[2],sys.argv[2:])\n"
CLOSED = BECOME + "print(next((p for p in sys.argv[2:] if not os.access(p[1:],int(p[0]))),'')[1:])\n"


def uid_of(token: str) -> int:
    """The same for one disk always; machines that share a kernel, as in the sandbox, hardly ever share one."""
    return FIRST_UID + int(token[:8], 16) % UIDS


def as_user(uid: int, code: str, *arguments: str) -> list[str]:
    """A command that is that user's before it does anything; ``code`` begins with ``BECOME``."""
    return [sys.executable, "-I", "-c", code, str(uid), *arguments]


class JobUser:
    """The job's user on this machine. ``spared`` lies beneath its work directory perhaps, and is not its own."""

    def __init__(self, uid: int, home: str, spared: tuple[str, ...]) -> None:
        self.uid, self.home, self.spared = uid, home, spared

    def obstacle(self, workdir: str, checkpoint_path: str, env: dict[str, str]) -> str:
        """Gives it its directories; answers why the job must run as root after all, or nothing.

        Without ``workdir`` it is asked for the setup, which is root in any case, and has the home of the run.
        """
        real = os.path.realpath(workdir) if workdir else ""
        if os.geteuid() != 0:
            return "that is not root"
        if real and checkpoint_path and not is_beneath(os.path.realpath(checkpoint_path), real):
            return "its checkpoint lies outside of its work directory"
        if real and any(is_beneath(place, real) for place in ("/etc", "/bin", os.path.realpath(sys.executable))):
            return "its work directory holds the system"
        directories = list(filter(None, (self.home, real)))
        try:
            for directory in directories:
                give(directory, self.uid, self.spared)
            closed = first_closed(self.uid, directories, env)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        return f"another could not use {closed}" if closed else ""

    def variables(self) -> dict[str, str]:
        """For a user whom the image does not know; and so that git works in a setup by root on what is his."""
        known = {"HOME": self.home, "USER": "job", "LOGNAME": "job"}
        return {**known, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def is_beneath(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def give(directory: str, uid: int, spared: tuple[str, ...]) -> None:
    """Everything there, but what lies in ``spared``. Raises ``OSError``."""
    os.chown(directory, uid, uid)
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if os.path.join(place, name) not in spared]
        for name in [*directories, *files]:
            path = os.path.join(place, name)
            with contextlib.suppress(FileNotFoundError):
                if os.lstat(path).st_uid != uid:
                    os.lchown(path, uid, uid)


def first_closed(uid: int, directories: list[str], env: dict[str, str]) -> str:
    """What the job may need and that user could not reach: tried, not reasoned. Raises ``OSError``."""
    search = [place for place in env.get("PATH", "").split(":") if os.path.isdir(place) and os.listdir(place)]
    programs = [shutil.which(name, path=env.get("PATH")) for name in ("sh", "bash", "python", "python3")]
    written = [
        *directories,
        env.get("TMPDIR") or "/tmp",  # noqa: S108 -- the job's own
        *glob.glob("/dev/nvidia[0-9u]*"),
        *glob.glob("/dev/nvidiactl"),
    ]
    needs = [f"{os.W_OK}{place}" for place in written] + [
        f"{os.X_OK}{place}" for place in [*search, *filter(None, programs)]
    ]
    command = as_user(uid, CLOSED, *needs)
    tried = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRY_TIMEOUT_S, check=False
    )
    if tried.returncode:
        return "this machine, where root may not switch users"
    return tried.stdout.strip()
