"""The same with Lightning: `pip install lightning`."""

from __future__ import annotations

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything

from autopilot import training


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))

    def training_step(self, inputs: torch.Tensor, number: int) -> torch.Tensor:
        loss: torch.Tensor = (self.layers(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        print(f"step {self.global_step + 1}/{self.trainer.max_steps} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    seed_everything(7)
    batches = torch.utils.data.DataLoader(torch.randn(10_240, 256), batch_size=512)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = Trainer(max_steps=400, accelerator="cpu", **quiet)
    training.fit(trainer, Module(), batches, weights_only=True)


if __name__ == "__main__":
    main()
