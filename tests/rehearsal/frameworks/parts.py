"""What the trainings of this directory share: a small seeded model, its data, and steps of half a second."""

import os
import time

import torch

STEPS = 1000
STEP_S = float(os.environ.get("STEP_S", "0.5"))
WIDTH = 64


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))


def make_rows(count: int = 4096) -> torch.Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(11))


def loss_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return (model(rows) - rows[:, :4].sum(dim=1, keepdim=True)).square().mean()


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> float:
    """One step."""
    time.sleep(STEP_S)
    loss = loss_of(model, rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def rows_of(step: int) -> torch.Tensor:
    """A batch that is of its step: a resume sees the same."""
    return make_rows()[torch.randperm(4096, generator=torch.Generator().manual_seed(step))[:512]]


def save_whole(body: object, path: str) -> None:
    torch.save(body, path + ".tmp")
    os.replace(path + ".tmp", path)
