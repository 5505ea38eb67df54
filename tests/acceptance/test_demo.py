"""The demo as a newcomer starts it: the first thing that is seen of autopilot."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

OF_EVERY_STORY = (
    "every interruption was handled",
    "the job succeeded",
    "the model equals that of an uninterrupted run",
    "no machine is left at the markets",
    "the ledger equals the markets' books",
)


MOVED = "the job moved from market to market"
OF_THE_STORY = {(): (MOVED,), ("--all-markets",): (MOVED, "no work was lost beyond the notice")}


@pytest.mark.parametrize("options", OF_THE_STORY, ids=["two markets", "all markets"])
def test_the_demo_ends_well_and_leaves_nothing(options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as short:  # sockets have short paths
        played = play(Path(short), "--plain", *options)
        left = list(Path(short).glob("autopilot-demo-*"))
    verdict = [line for line in played.stdout.splitlines() if line.startswith(("✔", "✘"))]
    holds = [f"✔ {what}" for what in (*OF_EVERY_STORY, *OF_THE_STORY[options])]
    assert [line.partition(":")[0] for line in verdict] == holds, played.stdout + played.stderr
    assert played.returncode == 0, played.stdout + played.stderr
    assert not left


def play(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "TMPDIR": str(directory)}
    return subprocess.run(
        [sys.executable, "-m", "autopilot.cli.main", "demo", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2000,
        check=False,
    )
