"""The recipes for PyTorch and what is built on it, run and interrupted, if these are installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/save-and-resume-training.md").read_text(), re.DOTALL)
PLAIN = """
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
ACCELERATED = """
import torch
from accelerate import Accelerator
torch.manual_seed(7)
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
plain = torch.nn.Linear(16, 1)
model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=0.01))
for step in range(begin(accelerator), 40):
    batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    accelerator.backward((model(batch) - batch.sum(dim=1, keepdim=True)).square().mean())
    optimizer.step()
    if (step + 1) % 10 == 0:
        save(accelerator, step + 1)
    if step == 25 and os.environ.get("CUT"):
        os._exit(9)
print([round(value, 9) for value in plain.weight.flatten().tolist()])
"""
LIGHTNING = """
import torch
from pytorch_lightning import LightningModule, Trainer, seed_everything
seed_everything(7)
torch.set_num_threads(1)
class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
    def training_step(self, batch, batch_idx):
        if batch_idx % 10 == 9:
            os.utime(os.environ["AUTOPILOT_SAVE_REQUEST"], (batch_idx, batch_idx))
        if batch_idx == 25 and os.environ.get("CUT"):
            os._exit(9)
        return (self.layer(batch) - batch.sum(dim=1, keepdim=True)).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)
class Loader:
    at = 0
    def __init__(self, batches):
        self.batches = batches
    def __len__(self):
        return len(self.batches)
    def __iter__(self):
        while self.at < len(self.batches):
            self.at += 1
            yield self.batches[self.at - 1]
    def state_dict(self):
        return {"at": self.at}
    def load_state_dict(self, state):
        self.at = state["at"]
data = [torch.randn(8, 16, generator=torch.Generator().manual_seed(step)) for step in range(40)]
module = Module()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(max_epochs=1, accelerator="cpu", callbacks=[SaveWhenAsked()], **quiet)
fit(trainer, module, Loader(data))
print([round(value, 9) for value in module.layer.weight.flatten().tolist()], trainer.global_step)
"""
CASES = {
    "torch": ("torch.save", PLAIN, "torch"),
    "accelerate": ("accelerator.save_state", ACCELERATED, "accelerate"),
    "lightning": ("SaveWhenAsked", LIGHTNING, "pytorch_lightning"),
}


def python(module: str) -> str:
    """``$TORCH_PYTHON``, or the one that runs the tests, if it has that module."""
    chosen = os.environ.get("TORCH_PYTHON", sys.executable)
    if subprocess.run([chosen, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{module} is not installed (TORCH_PYTHON names a Python that has it)")
    return chosen


@pytest.mark.parametrize("case", CASES)
def test_interrupted_it_ends_with_the_same_weights(case: str, tmp_path: Path) -> None:
    mark, training, module = CASES[case]
    (recipe,) = [block for block in RECIPES if mark in block]
    recipe = recipe.replace("lightning.pytorch", module)  # the same library under its other name
    interpreter = python(module)

    def run(directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
        directory.mkdir(exist_ok=True)
        (directory / "request").touch()
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(helper), "HOME": str(directory), **more}
        env["AUTOPILOT_SAVE_REQUEST"] = str(directory / "request")
        words = [interpreter, "-c", recipe + training]
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
