"""What Git says of a directory: which files are its own, and which commit they are of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from autopilot.domain.errors import UserError

TIMEOUT_S = 60
_OURS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""A hook sets them for another directory."""


def is_work_tree(directory: Path) -> bool:
    return any(os.path.lexists(each / ".git") for each in (directory, *directory.parents))


def list_files(directory: Path) -> list[str]:
    """Tracked files, and untracked ones that are not ignored; relative to ``directory``. Raises ``UserError``.

    A repository within it is one path that ends in ``/``, or the name of a submodule.
    """
    listed = _run(directory, "ls-files", "-c", "-o", "--exclude-standard", "-z")
    return list(dict.fromkeys(filter(None, os.fsdecode(listed).split("\0"))))


def is_ignored(directory: Path) -> bool:
    """Whether the repository around it ignores the directory itself. Raises ``UserError``."""
    return _ask(directory, "check-ignore", "-q", ".").returncode == 0


def read_commit(directory: Path) -> tuple[str, bool]:
    """(its hash, whether the files differ from it); an empty hash before the first commit. Raises ``UserError``."""
    is_dirty = bool(_run(directory, "status", "--porcelain", "-z", "--", "."))
    return _ask(directory, "rev-parse", "--verify", "-q", "HEAD").stdout.decode().strip(), is_dirty


def _run(directory: Path, *command: str) -> bytes:
    done = _ask(directory, *command)
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:300]
        raise UserError(f"git cannot list the ignored files in {directory}: {said}", hint="try it: git status")
    return done.stdout


def _ask(directory: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    # A repository's own settings may name programs to ask.
    asked = ["git", "-c", "core.fsmonitor=false", "-C", str(directory), *command]
    env = {name: value for name, value in os.environ.items() if name not in _OURS}
    try:
        return subprocess.run(asked, capture_output=True, env=env, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise UserError(
            f"{directory} is in a Git work tree, and git is not installed to list its ignored files",
            hint="install git",
        ) from None
    except subprocess.TimeoutExpired:
        raise UserError(f"git did not answer within {TIMEOUT_S} s in {directory}", hint="try it: git status") from None
