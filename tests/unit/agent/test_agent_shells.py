"""Which shell runs a job's commands, and what is seen of one that no shell can read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from autopilot.agent.shipped.shells import SH, find_shell, find_syntax_error


def run(shell: list[str], command: str) -> int:
    return subprocess.run([*shell, "-c", command], check=False, capture_output=True).returncode


def test_a_pipe_fails_in_bash_if_its_first_part_does() -> None:
    env = dict(os.environ)
    assert run(find_shell(True, env), "exit 3 | cat") == 3
    assert run(find_shell(False, env), "exit 3 | cat") == 0


def test_an_image_without_bash_has_sh(tmp_path: Path) -> None:
    assert find_shell(True, {"PATH": str(tmp_path)}) == SH


@pytest.mark.parametrize("in_bash", [True, False])
@pytest.mark.parametrize("command", ["if true; then echo", "echo 'no end", "(", "for in; do"])
def test_what_no_shell_can_read_is_told_and_not_run(in_bash: bool, command: str, tmp_path: Path) -> None:
    env, trace = dict(os.environ), tmp_path / "ran"
    shell = find_shell(in_bash, env)
    assert find_syntax_error(shell, f"echo ran > {trace}\n{command}", env)
    assert find_syntax_error(shell, f"echo ran > {trace}\nfalse | true", env) == ""
    assert not trace.exists()
