"""Sound trainings as people write them: python styles.py STYLE [STEPS]. All save to the directory ckpt.

``keep_three``: a directory for each save, the newest three kept. ``in_turn``: two files that are written over in turn.
``best_and_last``: two files, of which the second is what it goes on from. ``rows``: JSON lines beside, cut off at a
resume.
"""

import glob
import json
import os
import shutil
import sys
import time

STYLE = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
EVERY = 10
os.makedirs("ckpt", exist_ok=True)


def read(path: str) -> int:
    try:
        with open(path) as file:
            return int(json.load(file)["step"])
    except (OSError, ValueError):
        return 0


def load() -> int:
    if STYLE == "best_and_last":
        return read("ckpt/last.json")
    return max(map(read, glob.glob("ckpt/**/*.json", recursive=True)), default=0)


def write(path: str, step: int) -> None:
    with open(path, "w") as file:
        json.dump({"step": step, "weights": [step] * 2000}, file)


def save(step: int) -> None:
    if STYLE == "keep_three":
        os.makedirs(f"ckpt/tmp-{step}", exist_ok=True)
        write(f"ckpt/tmp-{step}/model.json", step)
        shutil.rmtree(f"ckpt/step-{step}", ignore_errors=True)
        os.rename(f"ckpt/tmp-{step}", f"ckpt/step-{step}")
        for old in sorted(glob.glob("ckpt/step-*"), key=lambda path: int(path.rpartition("-")[2]))[:-3]:
            shutil.rmtree(old)
    elif STYLE == "in_turn":
        write(f"ckpt/{'ab'[step // EVERY % 2]}.json", step)
    else:
        if STYLE == "best_and_last" and step % (3 * EVERY) == 0:
            write("ckpt/best.json.tmp", step)
            os.replace("ckpt/best.json.tmp", "ckpt/best.json")
        write("ckpt/last.json.tmp", step)
        os.replace("ckpt/last.json.tmp", "ckpt/last.json")


step = load()
if STYLE == "rows" and os.path.exists("rows.jsonl"):
    with open("rows.jsonl") as file:
        kept = [row for row in file if json.loads(row)["step"] <= step]
    with open("rows.jsonl", "w") as file:
        file.writelines(kept)
while step < STEPS:
    time.sleep(0.1)
    step += 1
    print(f"step {step}/{STEPS} loss {100 / (step + 1):.6f}", flush=True)
    if STYLE == "rows":
        with open("rows.jsonl", "a") as file:
            file.write(json.dumps({"loss": 100 / (step + 1), "step": step}) + "\n")
    if step % EVERY == 0:
        save(step)
