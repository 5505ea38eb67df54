"""Small suites with numbers that can be followed by hand."""

from __future__ import annotations

import random
from typing import Any

from autopilot_lab.backtest.policies import REGISTRY, Policy, default_policies


def availability_body(states: str = "1111110011111111", **changes: Any) -> dict[str, Any]:
    """One-hour ticks, spot at $1 and on-demand at $3; one run of 4 h of work in 8 h, restart half an hour."""
    lengths: list[int] = []
    for index, state in enumerate(states):
        if index and state == states[index - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    body = {
        "kind": "availability",
        "name": "small",
        "tick_s": 3600.0,
        "spot_rate": 1.0,
        "on_demand_rate": 3.0,
        "traces": {"zone": {"first": int(states[0]), "runs": lengths}},
        "columns": ["trace", "start", "ticks", "work_h", "deadline_h", "restart_h"],
        "runs": [[0, 0, 10, 4, 8, 0.5]],
    }
    return {**body, **changes}


def bid_body(floors: dict[str, list[float]] | None = None, **changes: Any) -> dict[str, Any]:
    """Half-hour ticks, on-demand at $3, storage $0.10, migrate 30 min, resume 15 min, checkpoint hourly."""
    floors = floors or {"a": [1.0] * 30}
    body = {
        "kind": "bids",
        "name": "small bids",
        "tick_s": 1800,
        "ticks": len(next(iter(floors.values()))),
        "on_demand_rate": 3.0,
        "storage_rate": 0.1,
        "migrate_s": 1800,
        "resume_s": 900,
        "checkpoint_s": 3600,
        "floors": {name: [[tick, floor] for tick, floor in enumerate(row)] for name, row in floors.items()},
        "columns": ["start", "work_h", "deadline_h", "pay"],
        "runs": [[0, 3, 6, "bid"]],
    }
    return {**body, **changes}


def random_availability_body(seed: int, runs: int = 24, tick_s: float = 300.0) -> dict[str, Any]:
    """Several windows on two traces of random spells."""
    rng = random.Random(seed)
    traces: dict[str, dict[str, Any]] = {
        name: {"first": rng.randint(0, 1), "runs": [rng.randint(1, 40) for _ in range(60)]} for name in ("a", "b")
    }
    ticks = min(sum(trace["runs"]) for trace in traces.values())
    rows = []
    for number in range(runs):
        deadline_h = rng.choice((8, 10, 14))
        window = int(deadline_h * 3600 / tick_s) + 2
        rows.append([number % 2, rng.randint(0, ticks - window), window, 6, deadline_h, rng.choice((0.05, 0.2, 0))])
    return availability_body(tick_s=tick_s, traces=traces, runs=rows)


def random_bid_body(seed: int, runs: int = 16) -> dict[str, Any]:
    """Floors that wander and jump on three machines."""
    rng = random.Random(seed)
    floors = {}
    for name in ("a", "b", "c"):
        level, row = 0.3, []
        for _ in range(400):
            level = max(0.05, level * rng.uniform(0.97, 1.03))
            row.append(round(level * (rng.choice((3, 12)) if rng.random() < 0.05 else 1), 4))
        floors[name] = row
    rows = [[rng.randint(0, 330), 6, rng.choice((8, 12, 20)), rng.choice(("bid", "clearing"))] for _ in range(runs)]
    return bid_body(floors, tick_s=1200, migrate_s=600, resume_s=120, checkpoint_s=600, runs=rows)


def baselines(kind: str) -> tuple[Policy, ...]:
    """The policies of a kind that need no model."""
    return tuple(policy for policy in default_policies(kind) if not REGISTRY[policy.name].fit)
