"""A loop over PyTorch, with one way to save and resume by its name: python plain.py WAY.

Sound: ``whole``, ``two_kept``, ``rows``, ``ignores_sigterm``. At fault: ``weights_alone`` counts from zero again,
``from_epoch`` resumes at its epoch, ``in_place`` saves over its only file, ``removed_first`` removes the save before it
writes the next, ``rows_lost`` opens its table again with "w", ``no_optimizer`` leaves out the momentum.
"""

import glob
import os
import sys

import torch
from parts import STEPS, learn, make_model, rows_of, save_whole

WAY = sys.argv[1]
EVERY, OF_EPOCH = 5, 25
os.makedirs("ckpt", exist_ok=True)
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95)


def number_of(path: str) -> int:
    return int(path.rpartition("-")[2].partition(".")[0])


def list_saves() -> list[str]:
    return sorted(glob.glob("ckpt/step-*.pt"), key=number_of)


def save(step: int) -> None:
    body = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if WAY == "in_place":
        torch.save(body, "ckpt/model.pt")
    elif WAY == "removed_first":
        for old in list_saves():
            os.remove(old)
        torch.save(body, f"ckpt/step-{step}.pt")
    elif WAY == "two_kept":
        save_whole(body, f"ckpt/step-{step}.pt")
        for old in list_saves()[:-2]:
            os.remove(old)
    else:
        save_whole(body, "ckpt/model.pt")


def load() -> int:
    places = list_saves() or glob.glob("ckpt/model.pt")
    if not places:
        return 0
    saved = torch.load(places[-1])
    model.load_state_dict(saved["model"])
    if WAY != "no_optimizer":
        optimizer.load_state_dict(saved["optimizer"])
    if WAY == "weights_alone":
        return 0
    return saved["step"] // OF_EPOCH * OF_EPOCH if WAY == "from_epoch" else saved["step"]


def open_table(step: int):
    kept = []
    if WAY == "rows" and os.path.exists("metrics.csv"):
        with open("metrics.csv") as file:
            kept = [row for row in file.readlines()[1:] if int(row.split(",")[0]) <= step]
    file = open("metrics.csv", "w")  # noqa: SIM115
    file.writelines(["step,loss\n", *kept])
    return file


if WAY == "ignores_sigterm":
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
first = load()
table = open_table(first) if WAY in ("rows", "rows_lost") else None
for step in range(first + 1, STEPS + 1):
    loss = learn(model, optimizer, rows_of(step))
    print(f"step {step}/{STEPS} loss {loss:.6f}", flush=True)
    if table is not None:
        table.write(f"{step},{loss:.6f}\n")
        table.flush()
    if step % EVERY == 0:
        save(step)
