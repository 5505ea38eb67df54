"""A small, honest training run: a two-layer network learns a made-up function by stochastic gradient descent.

Standard library only. It uses nothing but + - * / and comparisons on floats and a seeded generator, and a checkpoint
holds the weights, the step and the generator's state exactly: however often it is killed and started again, the final
weights are the same bits as those of an uninterrupted run. Steps cost equal time, so ``--steps`` scales it.
"""

# ruff: noqa: B905, S311 -- it runs on Python 3.8, needs repeatable numbers, and speaks to its log

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import struct
import sys
from typing import Any

INPUTS, HIDDEN, BATCH = 8, 48, 32
RATE = 0.01
SEED = 20260101
DEFAULT_STEPS = 24_000
CHECKPOINT_EVERY, LOG_EVERY = 200, 500

State = Any


def fresh_state() -> State:
    rng = random.Random(SEED)
    return {
        "step": 0,
        "loss": 0.0,
        "hidden": [[rng.random() - 0.5 for _ in range(INPUTS + 1)] for _ in range(HIDDEN)],
        "output": [rng.random() - 0.5 for _ in range(HIDDEN + 1)],
        "rng": rng.getstate(),
    }


def load(path: str) -> State:
    """The state saved at ``path``, or a fresh one when nothing was saved yet."""
    if not os.path.exists(path):
        return fresh_state()
    with open(path) as file:
        state = json.load(file)
    version, words, gauss = state["rng"]
    state["rng"] = (version, tuple(words), gauss)
    return state


def save(path: str, state: State) -> None:
    """Write aside, then rename into place: a reader finds the old checkpoint or the complete new one."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".tmp", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def model_digest(path: str) -> str:
    """SHA-256 over the step and the weights' exact bits in the checkpoint at ``path``."""
    state = load(path)
    weights = [weight for row in state["hidden"] for weight in row] + state["output"]
    return hashlib.sha256(struct.pack(f"<q{len(weights)}d", state["step"], *weights)).hexdigest()


def dot(a: list[float], b: list[float]) -> float:
    """Plain left-to-right addition: ``sum`` rounds differently from Python 3.12 on."""
    total = 0.0
    for x, y in zip(a, b):
        total += x * y
    return total


def truth(x: list[float]) -> float:
    return x[0] * x[1] - 0.5 * x[2] + (x[3] if x[3] > 0 else 0.0) + 0.25 * x[4] * x[5] * x[6] - 0.1 * x[7]


def train_step(state: State, rng: random.Random) -> None:
    """One step of gradient descent on a fresh batch; changes the weights in place."""
    hidden, output = state["hidden"], state["output"]
    hidden_gradient = [[0.0] * (INPUTS + 1) for _ in range(HIDDEN)]
    output_gradient = [0.0] * (HIDDEN + 1)
    total = 0.0
    for _ in range(BATCH):
        x = [2 * rng.random() - 1 for _ in range(INPUTS)] + [1.0]
        sums = [dot(row, x) for row in hidden]
        active = [s if s > 0 else 0.0 for s in sums] + [1.0]
        error = dot(output, active) - truth(x)
        total += error * error
        scale = 2 * error / BATCH
        for j in range(HIDDEN + 1):
            output_gradient[j] += scale * active[j]
        for j in range(HIDDEN):
            if sums[j] > 0:
                back, row = scale * output[j], hidden_gradient[j]
                for i in range(INPUTS + 1):
                    row[i] += back * x[i]
    state["output"] = [w - RATE * g for w, g in zip(output, output_gradient)]
    state["hidden"] = [[w - RATE * g for w, g in zip(*rows)] for rows in zip(hidden, hidden_gradient)]
    state["loss"] = 0.99 * state["loss"] + 0.01 * total / BATCH if state["step"] else total / BATCH
    state["step"] += 1


def report_progress(step: int, steps: int) -> None:
    path = os.environ.get("AUTOPILOT_PROGRESS_FILE")
    if path:
        with open(path + ".tmp", "w") as file:
            json.dump({"step": step, "progress": step / steps}, file)
        os.replace(path + ".tmp", path)


def train(steps: int, path: str) -> None:
    state = load(path)
    rng = random.Random()
    rng.setstate(state["rng"])
    told_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told_to_stop.append(number))
    print(f"training from step {state['step']} to {steps}", flush=True)
    while state["step"] < steps:
        train_step(state, rng)
        step = state["step"]
        if step % LOG_EVERY == 0 or step == steps:
            print(f"step {step}/{steps} loss {state['loss']:.6f}", flush=True)
        if step % CHECKPOINT_EVERY == 0 or step == steps or told_to_stop:
            state["rng"] = rng.getstate()
            save(path, state)
            report_progress(step, steps)
        if told_to_stop and step < steps:
            print(f"stopped at step {step}", flush=True)
            sys.exit(128 + told_to_stop[0])
    print(f"model sha256 {model_digest(path)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help=f"default: {DEFAULT_STEPS}")
    parser.add_argument("--checkpoint", required=True, metavar="PATH", help="where to save, and to resume from")
    options = parser.parse_args()
    train(options.steps, options.checkpoint)


if __name__ == "__main__":
    main()
