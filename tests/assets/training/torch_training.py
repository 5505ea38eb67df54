"""A plain PyTorch training loop that saves all it needs to go on to the bit: weights, AdamW, step, generator."""

import hashlib
import os
import sys
import time

import torch

STEPS, STEP_S, WITNESS = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
SAVED = "ckpt/state.pt"

torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
rng = torch.Generator().manual_seed(11)
step = 0


def save() -> None:
    os.makedirs("ckpt", exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng.get_state(), "step": step}
    torch.save(state, SAVED + ".tmp")
    os.replace(SAVED + ".tmp", SAVED)


def testify(*words: object) -> None:
    with open(WITNESS, "a") as file:
        print(time.time(), os.getpid(), *words, file=file)


if os.path.exists(SAVED):
    saved = torch.load(SAVED, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    rng.set_state(saved["rng"])
    step = saved["step"]
testify("start", step)
while step < STEPS:
    batch = torch.randn(32, 64, generator=rng)
    optimizer.zero_grad()
    (model(batch) - batch.sum(dim=1, keepdim=True)).square().mean().backward()
    optimizer.step()
    step += 1
    time.sleep(STEP_S)
    testify("step", step)
    if step % 10 == 0 or step == STEPS:
        save()
while not os.path.exists(WITNESS + ".may-finish"):
    time.sleep(0.05)
weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
testify("weights", hashlib.sha256(weights).hexdigest())
