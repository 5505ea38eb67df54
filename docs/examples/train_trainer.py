"""The same with Hugging Face's Trainer: `pip install transformers accelerate torch`."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer, TrainingArguments

from autopilot import training


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))

    def forward(self, inputs: torch.Tensor) -> dict[str, Any]:
        return {"loss": (self.layers(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()}


def main() -> None:
    torch.manual_seed(7)
    rows = [{"inputs": row} for row in torch.randn(51_200, 256)]
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=512,
        num_train_epochs=4,
        save_steps=50,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
    )
    training.train(Trainer(Model(), arguments, train_dataset=rows))


if __name__ == "__main__":
    main()
