"""The commands that people run all day import nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.unit.cli.sample_daemon import Daemon

HEAVY = {
    "aiohttp",
    "aiosqlite",
    "alembic",
    "apscheduler",
    "asyncio",
    "pydantic",
    "pyarrow",
    "pydantic_settings",
    "runpod",
    "sqlalchemy",
    "structlog",
    "vastai",
}


def imported(*argv: str) -> set[str]:
    """Top-level packages that the command imported."""
    command = [sys.executable, "-X", "importtime", "-m", "autopilot.cli.main", *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert done.returncode == 0, done.stderr.replace("\n".join(lines), "")
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_help_imports_not_even_the_command_line_library() -> None:
    assert not imported("--help") & (HEAVY | {"cyclopts", "rich"})


@pytest.mark.parametrize(
    "argv",
    [
        ["ps"],
        ["ps", "--json"],
        ["show", "bert-qa"],
        ["spend"],
        ["spend", "--csv"],
        ["budget"],
        ["reconcile"],
        ["prices", "RTX 4090"],
        ["show", "47848147"],
        ["logs", "bert-qa"],
        ["submit", "--help"],
        ["serve", "--help"],
        ["doctor", "--help"],
        ["sandbox", "--help"],
        ["demo", "--help"],
        ["init", "--help"],
        ["version"],
    ],
)
def test_commands_import_nothing_heavy(daemon: Daemon, argv: list[str]) -> None:
    assert not imported(*argv) & (HEAVY - {"asyncio"})


def test_help_is_quick(tmp_path: Path) -> None:
    script = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-m', 'autopilot.cli.main', '--help'], stdout=subprocess.DEVNULL, check=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime)"
    )
    seconds = min(float(subprocess.check_output([sys.executable, "-c", script], timeout=PATIENCE_S)) for _ in range(3))
    assert seconds < 2  # of its own CPU; a fifth as a rule
