"""A loop over PyTorch whose saves are directories of safetensors, with a table beside that is cut off: sound."""

import csv
import glob
import json
import os
import shutil

import torch
from parts import STEPS, learn, make_model, rows_of
from safetensors.torch import load_file, save_file

model = make_model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def list_saves() -> list[str]:
    return sorted(glob.glob("state/step_*"), key=lambda place: int(place.rpartition("_")[2]))


def save(step: int) -> None:
    scratch = f"state/.step_{step}"
    os.makedirs(scratch, exist_ok=True)
    save_file(model.state_dict(), f"{scratch}/model.safetensors")
    torch.save(optimizer.state_dict(), f"{scratch}/optimizer.bin")
    with open(f"{scratch}/state.json", "w") as file:
        json.dump({"global_step": step}, file)
    os.rename(scratch, f"state/step_{step}")
    for old in list_saves()[:-2]:
        shutil.rmtree(old)


def load() -> int:
    if not list_saves():
        return 0
    newest = list_saves()[-1]
    model.load_state_dict(load_file(f"{newest}/model.safetensors"))
    optimizer.load_state_dict(torch.load(f"{newest}/optimizer.bin"))
    with open(f"{newest}/state.json") as file:
        return json.load(file)["global_step"]


def open_table(first: int):
    kept = [["step", "loss"]]
    if os.path.exists("log.csv"):
        with open("log.csv", newline="") as file:
            kept += [row for row in list(csv.reader(file))[1:] if int(row[0]) <= first]
    file = open("log.csv", "w", newline="", buffering=1)  # noqa: SIM115
    csv.writer(file).writerows(kept)
    return file


first = load()
table = csv.writer(open_table(first))
for step in range(first + 1, STEPS + 1):
    loss = learn(model, optimizer, rows_of(step))
    table.writerow([step, f"{loss:.5f}"])
    if step % 2 == 0:
        print({"step": step, "train_loss": round(loss, 5)}, flush=True)
    if step % 8 == 0:
        save(step)
