"""A training that counts its steps within epochs: python by_epoch.py sound|twice [EPOCHS]. It saves within them, too.

``twice`` begins at the epoch of its save, not at its step.
"""

import json
import os
import sys
import time

FAULT = sys.argv[1]
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
STEPS, EVERY = 60, 6
PATH = "ckpt.json"
epoch, step = 0, 0
if os.path.exists(PATH):
    with open(PATH) as file:
        saved = json.load(file)
    epoch, step = saved["epoch"], 0 if FAULT == "twice" else saved["step"]
while epoch < EPOCHS:
    print(f"Epoch {epoch + 1}/{EPOCHS}", flush=True)
    while step < STEPS:
        time.sleep(0.1)
        step += 1
        print(f"  step {step}/{STEPS} loss {100 / (epoch * STEPS + step + 1):.6f}", flush=True)
        if step % EVERY == 0:
            with open(PATH + ".tmp", "w") as file:
                json.dump({"epoch": epoch, "step": step}, file)
            os.replace(PATH + ".tmp", PATH)
    epoch, step = epoch + 1, 0
