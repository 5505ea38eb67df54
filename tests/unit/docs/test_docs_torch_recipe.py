"""The recipe for PyTorch, run and interrupted, where PyTorch is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/save-and-resume-training.md").read_text(), re.DOTALL)
TRAINING = """
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
path = checkpoint.path("model.pt")
for step in range(load(path, model, optimizer), 40):
    batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    (model(batch) - batch.sum(dim=1, keepdim=True)).square().mean().backward()
    optimizer.step()
    if (step + 1) % 10 == 0:
        save(path, model, optimizer, step + 1)
    if step == 25 and os.environ.get("CUT"):
        os._exit(9)
print([round(value, 9) for value in model.weight.flatten().tolist()])
"""


def python() -> str:
    """``$TORCH_PYTHON``, or the one that runs the tests, if it has PyTorch."""
    chosen = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([chosen, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("PyTorch is not installed (TORCH_PYTHON names a Python that has it)")
    return chosen


def test_interrupted_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    (recipe,) = [block for block in RECIPES if "torch.save" in block]
    interpreter = python()

    def run(directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
        directory.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(helper), **more}
        words = [interpreter, "-c", recipe + TRAINING]
        return subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, check=False)

    helper = tmp_path / "helper"  # as on a machine: that one module and nothing else of autopilot
    (helper / "autopilot").mkdir(parents=True)
    (helper / "autopilot/__init__.py").touch()
    (helper / "autopilot/checkpoint.py").write_text((ROOT / "autopilot/checkpoint.py").read_text())
    whole = run(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert run(tmp_path / "cut", CUT="1").returncode == 9
    again = run(tmp_path / "cut")
    assert (again.stdout, again.returncode) == (whole.stdout, 0), again.stderr
