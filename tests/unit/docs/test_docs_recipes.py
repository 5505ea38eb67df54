"""The recipes for training code: what they say runs, is interrupted, and ends as if it had not been."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/save-and-resume-training.md").read_text(), re.DOTALL)
RUNNABLE = [block for block in BLOCKS if "numpy" in block]
EXPECTED = f"sum {1000 * sum(1 / step for step in range(1, 201)):.6f}"


def environment(directory: Path, request: bool) -> dict[str, str]:
    if request:
        (directory / "request").touch()
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "AUTOPILOT_CHECKPOINT_PATH": str(directory / "ckpt.npz"),
        "AUTOPILOT_SAVE_REQUEST": str(directory / "request"),
        "AUTOPILOT_CHECKPOINT_MARK": str(directory / "autopilot-checkpoint"),
    }


def test_each_recipe_is_python() -> None:
    assert len(RUNNABLE) == 2
    for block in BLOCKS:
        compile(block, "recipe", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("block", RUNNABLE, ids=["by the clock", "when asked"])
def test_interrupted_it_ends_with_the_same_sum(block: str, tmp_path: Path) -> None:
    env = environment(tmp_path, request=True)
    ask = "if step % 50 == 0: os.utime(os.environ['AUTOPILOT_SAVE_REQUEST'], (step, step))\n    "
    die = ask + "if step == 120 and not os.path.exists('cut'): open('cut', 'w'); os._exit(9)\n    "
    cut = block.replace("weights, step = weights", die + "weights, step = weights")
    first = subprocess.run([sys.executable, "-c", cut], env=env, cwd=tmp_path, check=False)
    assert first.returncode == 9
    assert (tmp_path / "ckpt.npz").exists()
    command = [sys.executable, "-c", cut]
    again = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    word, total = again.stdout.split()
    assert f"{word} {float(total):.6f}" == EXPECTED
