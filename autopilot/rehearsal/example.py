"""The training of ``autopilot rehearse --example``: a line through noisy points, in plain Python; half a minute."""

import json
import os
import random
import time

STEPS, EVERY, PATH = 150, 10, "checkpoint.json"


def load() -> dict[str, float]:
    try:
        with open(PATH) as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {"step": 0, "slope": 0.0, "pull": 0.0}


def save(state: dict[str, float]) -> None:
    """Whole or not at all."""
    with open(PATH + ".tmp", "w") as file:
        json.dump(state, file)
    os.replace(PATH + ".tmp", PATH)


def main() -> None:
    state = load()
    for step in range(int(state["step"]), STEPS):
        noise = random.Random(step)  # noqa: S311 -- of its step, so that a resume sees the same points
        points = [(x, 3 * x + noise.gauss(0, 0.1)) for x in (noise.random() for _ in range(64))]
        errors = [state["slope"] * x - y for x, y in points]
        slope = sum(2 * error * x for error, (x, _) in zip(errors, points)) / len(points)  # noqa: B905 -- Python 3.8
        state["pull"] = 0.8 * state["pull"] + slope
        state["slope"] -= 0.05 * state["pull"]
        state["step"] = step + 1
        print(f"step {step + 1}/{STEPS} loss {sum(e * e for e in errors) / len(errors):.5f}", flush=True)  # noqa: T201
        if (step + 1) % EVERY == 0:
            save(state)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
