"""A plain numpy training loop that saves what it needs to go on to the bit: weights, momentum, step, generator."""

import hashlib
import json
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # beside a market, a daemon and a store on one test machine

import numpy as np
from numpy.typing import NDArray

STEPS, STEP_S, WITNESS = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
SAVED = "ckpt/state.npz"

Floats = NDArray[np.float64]


def fresh() -> tuple[int, Floats, Floats, np.random.Generator]:
    rng = np.random.default_rng(7)
    weights = rng.standard_normal((256, 128))
    return 0, weights, np.zeros_like(weights), rng


def load() -> tuple[int, Floats, Floats, np.random.Generator]:
    if not os.path.exists(SAVED):
        return fresh()
    with np.load(SAVED) as saved:
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(str(saved["rng"]))
        return int(saved["step"]), saved["weights"], saved["momentum"], rng


def save(step: int, weights: Floats, momentum: Floats, rng: np.random.Generator) -> None:
    os.makedirs("ckpt", exist_ok=True)
    with open(SAVED + ".tmp", "wb") as file:
        np.savez(file, step=step, weights=weights, momentum=momentum, rng=json.dumps(rng.bit_generator.state))
    os.replace(SAVED + ".tmp", SAVED)


def testify(*words: object) -> None:
    with open(WITNESS, "a") as file:
        print(time.time(), os.getpid(), *words, file=file)


step, weights, momentum, rng = load()
testify("start", step)
truth = np.linspace(-1, 1, 256)
while step < STEPS:
    batch = rng.standard_normal((32, 256))
    error = np.tanh(batch @ weights).sum(axis=1) - batch @ truth
    momentum = 0.9 * momentum + batch.T @ (error[:, None] * (1 - np.tanh(batch @ weights) ** 2)) / 32
    weights = weights - 0.001 * momentum
    step += 1
    time.sleep(STEP_S)
    testify("step", step)
    if step % 10 == 0 or step == STEPS:
        save(step, weights, momentum, rng)
while not os.path.exists(WITNESS + ".may-finish"):
    time.sleep(0.05)
testify("weights", hashlib.sha256(weights.tobytes()).hexdigest())
