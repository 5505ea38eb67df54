"""A small training with PyTorch that survives the loss of its machine: `pip install torch`, a minute on a processor."""

from __future__ import annotations

import torch

from autopilot import training

STEPS = 400


def main() -> None:
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in training.steps(STEPS, model=model, optimizer=optimizer):
        inputs = torch.randn(2048, 256)
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}/{STEPS} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
