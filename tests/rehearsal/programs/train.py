"""A seeded training in plain Python, with one fault planted by name: python train.py FAULT [STEPS]."""

import json
import os
import random
import sys
import time

FAULT = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
EVERY = 10
PATH = "ckpt.json"
step, weight, momentum = 0, 4.0, 0.0
noise = random.Random(7)
is_resumed = os.path.exists(PATH) and FAULT != "from_zero"
if is_resumed:
    with open(PATH) as file:
        saved = json.load(file)
    step, weight, momentum = saved["step"], saved["weight"], saved["momentum"]
    noise.setstate((saved["noise"][0], tuple(saved["noise"][1]), saved["noise"][2]))
    if FAULT == "fails_on_resume":
        raise ValueError("size mismatch for layer.weight")
    if FAULT == "jump":
        weight, momentum = 4.0, 0.0


def save() -> None:
    body = {"step": step, "weight": weight, "momentum": momentum, "noise": noise.getstate()}
    if FAULT == "in_place":
        with open(PATH, "w") as file:
            for piece in json.dumps(body).split(","):
                file.write(piece + ("," if not piece.endswith("}") else ""))
                file.flush()
        return
    with open(PATH + ".tmp", "w") as file:
        json.dump(body, file)
    os.replace(PATH + ".tmp", PATH)


if FAULT == "doubled" or FAULT == "overwritten":
    table = open("table.csv", "a" if FAULT == "doubled" else "w")  # noqa: SIM115
elif is_resumed and os.path.exists("table.csv"):
    with open("table.csv") as file:
        rows = [row for row in file if int(row.split(",")[0]) <= step]
    table = open("table.csv", "w")  # noqa: SIM115
    table.writelines(rows)
else:
    table = open("table.csv", "w")  # noqa: SIM115
while step < STEPS:
    time.sleep(0.1)
    step += 1
    momentum = 0.9 * momentum + 0.1 * weight
    weight -= 0.05 * momentum
    loss = weight * weight + 0.01 * noise.random()
    print(f"step {step}/{STEPS} loss {loss:.6f}", flush=True)
    table.write(f"{step},{loss:.6f}\n")
    table.flush()
    if step % EVERY == 0 and FAULT != "never":
        save()
