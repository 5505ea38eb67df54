"""The demo's training script: interrupted or not, the same bits."""

from __future__ import annotations

import json
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import autopilot_lab

TRAINER = Path(autopilot_lab.__file__).parent / "sandbox/images/demo/opt/demo/train.py"


def train(path: Path, steps: int, **env: str) -> str:
    command = [sys.executable, str(TRAINER), "--steps", str(steps), "--checkpoint", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout


@pytest.mark.slow
def test_the_model_does_not_depend_on_interruptions(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole.json", 450).rsplit("model sha256 ", 1)[1].strip()
    pieces = tmp_path / "pieces.json"
    command = [sys.executable, str(TRAINER), "--steps", "450", "--checkpoint", str(pieces)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "training from step 0 to 450\n"
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        run.kill()
    progress = tmp_path / "progress.json"
    out = train(pieces, 450, AUTOPILOT_PROGRESS_FILE=str(progress))
    assert out.rsplit("model sha256 ", 1)[1].strip() == whole
    digest = runpy.run_path(str(TRAINER))["model_digest"]
    assert digest(str(pieces)) == digest(str(tmp_path / "whole.json")) == whole
    assert json.loads(progress.read_text()) == {"step": 450, "progress": 1.0}
    assert "from step 450" in train(pieces, 450)
