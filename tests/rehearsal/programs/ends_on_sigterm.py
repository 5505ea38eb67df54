"""A sound training that ends at SIGTERM and does not count on a save then: python ends_on_sigterm.py [STEPS]."""

import json
import os
import signal
import sys
import time

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
PATH = "ckpt.json"


def on_sigterm(number: int, _: object) -> None:
    print("told to end", number, flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, on_sigterm)
step = 0
if os.path.exists(PATH):
    with open(PATH) as file:
        step = json.load(file)["step"]
while step < STEPS:
    time.sleep(0.1)
    step += 1
    print(f"step {step}/{STEPS} loss {100 / (step + 1):.6f}", flush=True)
    if step % 10 == 0:
        with open(PATH + ".tmp", "w") as file:
            json.dump({"step": step}, file)
        os.replace(PATH + ".tmp", PATH)
