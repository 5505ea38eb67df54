"""A loop over PyTorch whose handler of SIGTERM sets a flag: python plain_flag.py step|epoch, where the flag is read."""

import os
import signal
import sys

import torch
from parts import STEPS, learn, make_model, rows_of, save_whole

READ_AT = {"step": 1, "epoch": 40}[sys.argv[1]]
PATH = "ckpt.pt"
model = make_model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
told_to_end = False


def on_sigterm(*_: object) -> None:
    global told_to_end
    told_to_end = True


def save(step: int) -> None:
    save_whole({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, PATH)


signal.signal(signal.SIGTERM, on_sigterm)
first = 0
if os.path.exists(PATH):
    saved = torch.load(PATH)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
for step in range(first + 1, STEPS + 1):
    print(f"step {step}/{STEPS} loss {learn(model, optimizer, rows_of(step)):.6f}", flush=True)
    if step % 8 == 0:
        save(step)
    if told_to_end and step % READ_AT == 0:
        save(step)
        sys.exit(0)
