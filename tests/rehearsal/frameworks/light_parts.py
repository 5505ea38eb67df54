"""A module of Lightning over the model of this directory, and a Trainer that prints nothing of its own."""

import time

import torch
from lightning.pytorch import LightningModule, Trainer
from parts import STEP_S, STEPS, loss_of, make_model, make_rows


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = make_model()

    def training_step(self, rows: torch.Tensor, number: int) -> torch.Tensor:
        time.sleep(STEP_S)
        loss = loss_of(self.layers, rows)
        print(f"step {self.global_step + 1}/{STEPS} loss {loss.item():.6f}", flush=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def make_data() -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(make_rows(), batch_size=256)


def make_trainer(*callbacks: object) -> Trainer:
    return Trainer(
        max_steps=STEPS, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=bool(callbacks), callbacks=list(callbacks),
    )  # fmt: skip
