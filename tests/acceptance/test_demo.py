"""The demo as a newcomer starts it: the first thing that is seen of autopilot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    played = subprocess.run(
        [sys.executable, "-m", "autopilot.cli.main", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    verdict = [line for line in played.stdout.splitlines() if line.startswith(("✔", "✘"))]
    assert (played.returncode, len(verdict)) == (0, 6), played.stdout + played.stderr
    assert not list(tmp_path.glob("autopilot-demo-*"))
