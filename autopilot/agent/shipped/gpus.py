"""What the GPUs do: the word of the driver's own program."""

from __future__ import annotations

import subprocess
from typing import Any

IDLE_BELOW = 0.05
TIMEOUT_S = 20
MOST_GPUS = 16
MIB = 1 << 20
QUERY = [
    "nvidia-smi",
    "--query-gpu=utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
]


def read_gpus() -> list[dict[str, Any]] | None:
    """For each GPU how ``busy`` it is (0..1), and bytes of memory; None what is not said, and for all if nothing is.

    A driver that hangs is waited for, so this is no call for a thread that has anything else to do.
    """
    try:
        said = subprocess.run(
            QUERY, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return [parse(line) for line in said.stdout.splitlines()[:MOST_GPUS] if line.strip()] or None


def parse(line: str) -> dict[str, Any]:
    percent, used, total = [*map(number, line.split(",")), None, None, None][:3]
    return {
        "busy": None if percent is None or percent > 100 else percent / 100,
        "memory_used": None if used is None else int(used * MIB),
        "memory_total": None if total is None else int(total * MIB),
    }


def number(text: str) -> float | None:
    """``[N/A]`` is none."""
    try:
        read = float(text)
    except ValueError:
        return None
    return read if 0 <= read < 2**32 else None


def are_busy(gpus: list[dict[str, Any]] | None) -> bool | None:
    """Whether one of them works; None: none does that can be read, and not all can."""
    known = [gpu["busy"] for gpu in gpus or [] if gpu["busy"] is not None]
    if any(busy >= IDLE_BELOW for busy in known):
        return True
    return False if gpus and len(known) == len(gpus) else None
