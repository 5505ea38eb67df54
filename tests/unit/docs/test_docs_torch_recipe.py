"""The recipes for PyTorch and what is built on it, run and interrupted, if these are installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autopilot.agent.artifact import HELPERS

ROOT = Path(__file__).parents[3]
RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/save-and-resume-training.md").read_text(), re.DOTALL)
PLAIN = """
import os
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
class Batches:
    def __len__(self):
        return 40
    def __getitem__(self, step):
        if step % 10 == 9:
            os.utime(os.environ["AUTOPILOT_SAVE_REQUEST"], (step, step))
        if step == 25 and os.environ.get("CUT"):
            os._exit(9)
        batch = torch.randn(8, 16)  # of the seed that goes on with the checkpoint
        return batch, batch.sum(dim=1, keepdim=True)
fit(model, optimizer, Batches())
print([round(value, 9) for value in model.weight.flatten().tolist()])
"""
TRAINER = """
import os
import torch
from transformers import Trainer, TrainingArguments
torch.set_num_threads(1)
class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
        self.steps = 0
    def forward(self, batch):
        if self.steps % 10 == 9:
            os.utime(os.environ["AUTOPILOT_SAVE_REQUEST"], (self.steps, self.steps))
        if self.steps == 25 and os.environ.get("CUT"):
            os._exit(9)
        self.steps += 1
        return {"loss": (self.layer(batch) - batch.sum(dim=1, keepdim=True)).square().mean()}
torch.manual_seed(7)
module = Module()
rows = [{"batch": torch.randn(16, generator=torch.Generator().manual_seed(row))} for row in range(320)]
options = dict(per_device_train_batch_size=8, num_train_epochs=1, save_strategy="no", save_total_limit=2, seed=7)
arguments = TrainingArguments("out", use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=1000, **options)
trainer = Trainer(module, arguments, train_dataset=rows)
is_second = os.path.isdir("out/checkpoint-20")
if is_second:  # a save that was cut off in the middle
    os.makedirs("out/checkpoint-30")
fit(trainer)
print([round(value, 9) for value in module.layer.weight.flatten().tolist()], trainer.state.global_step)
if is_second and module.steps != 20:
    raise SystemExit(f"{module.steps} steps after a save at step 20 of 40")
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
import os
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
trainer = Trainer(max_epochs=1, accelerator="cpu", **quiet)
fit(trainer, module, Loader(data))
print([round(value, 9) for value in module.layer.weight.flatten().tolist()], trainer.global_step)
"""
CASES = {
    "torch": ("training.steps", PLAIN, "torch"),
    "trainer": ("training.train", TRAINER, "transformers"),
    "accelerate": ("accelerator.save_state", ACCELERATED, "accelerate"),
    "lightning": ("training.fit", LIGHTNING, "pytorch_lightning"),
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
    interpreter = python(module)

    def run(directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
        directory.mkdir(exist_ok=True)
        (directory / "request").touch()
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(helper), "HOME": str(directory), **more}
        env["AUTOPILOT_SAVE_REQUEST"] = str(directory / "request")
        words = [interpreter, "-c", recipe + training]
        return subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, check=False)

    helper = tmp_path / "helper"  # as on a machine: these modules and nothing else of autopilot
    (helper / "autopilot").mkdir(parents=True)
    (helper / "autopilot/__init__.py").touch()
    for name in HELPERS:
        (helper / f"autopilot/{name}.py").write_text((ROOT / f"autopilot/{name}.py").read_text())
    whole = run(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert run(tmp_path / "cut", CUT="1").returncode == 9
    again = run(tmp_path / "cut")
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
