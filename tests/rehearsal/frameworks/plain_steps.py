"""A loop over PyTorch in the steps of autopilot.training: sound."""

import torch
from parts import STEPS, learn, make_model, rows_of

from autopilot import training

model = make_model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in training.steps(STEPS, model=model, optimizer=optimizer):
    print(f"step {step + 1}/{STEPS} loss {learn(model, optimizer, rows_of(step)):.6f}", flush=True)
