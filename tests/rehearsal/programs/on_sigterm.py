"""A training that counts on SIGTERM: python on_sigterm.py sound|goes_on|silent|slow [STEPS]."""

import json
import os
import signal
import sys
import time

FAULT = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
PATH = "ckpt.json"
step = 0
if os.path.exists(PATH):
    with open(PATH) as file:
        step = json.load(file)["step"]
asked: list[int] = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))


def save() -> None:
    with open(PATH + ".tmp", "w") as file:
        json.dump({"step": step}, file)
    os.replace(PATH + ".tmp", PATH)


while step < STEPS:
    time.sleep(0.1)
    step += 1
    print(f"step {step}/{STEPS} loss {100 / (step + 1):.6f}", flush=True)
    if asked:
        if FAULT == "slow":
            time.sleep(30)
        if FAULT != "silent":
            save()
        if FAULT != "goes_on":
            sys.exit(143)
        asked.clear()
    if step % 10 == 0:
        save()
