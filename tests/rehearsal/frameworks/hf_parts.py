"""A Trainer over the model of this directory, which tells each step and its loss."""

import time

import torch
from parts import STEP_S, STEPS, loss_of, make_model, make_rows
from transformers import Trainer, TrainerCallback, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = make_model()

    def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": loss_of(self.layers, inputs)}


class HalfSecond(TrainerCallback):
    def on_step_begin(self, *_: object, **__: object) -> None:
        time.sleep(STEP_S)

    def on_log(self, args: object, state: object, control: object, logs: dict, **_: object) -> None:
        if "loss" in logs:
            print(f"step {state.global_step}/{STEPS} loss {logs['loss']:.6f}", flush=True)


def make_trainer(**changes: object) -> Trainer:
    settings = {
        "output_dir": "out",
        "per_device_train_batch_size": 256,
        "max_steps": STEPS,
        "save_steps": 5,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "report_to": [],
        "use_cpu": True,
        "seed": 7,
        "disable_tqdm": True,
    } | changes
    rows = [{"inputs": row} for row in make_rows()]
    return Trainer(Model(), TrainingArguments(**settings), train_dataset=rows, callbacks=[HalfSecond()])
