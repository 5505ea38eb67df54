"""Which shell runs the job's commands, and whether it can read them at all."""

from __future__ import annotations

import shutil
import subprocess

SH = ["/bin/sh"]
CHECK_TIMEOUT_S = 10.0
SYNTAX_CODE = 2
"""What shells answer to a command that they cannot read."""


def find_shell(in_bash: bool, env: dict[str, str]) -> list[str]:
    """The words before ``-c``. An image may have no bash: then it is sh, in which a pipe ends as its last command."""
    bash = shutil.which("bash", path=env.get("PATH")) if in_bash else None
    return SH if bash is None else [bash, "-o", "pipefail"]


def find_syntax_error(shell: list[str], command: str, env: dict[str, str]) -> str:
    """What the shell says of a command that it cannot read; empty: it can. Nothing of it is run."""
    try:
        tried = subprocess.run(
            [*shell, "-n", "-c", command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=env,
            timeout=CHECK_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""  # the start itself tells what is wrong
    return tried.stderr.strip()[-2000:] if tried.returncode else ""
