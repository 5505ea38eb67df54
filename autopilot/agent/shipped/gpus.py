"""Whether the GPUs work: what the driver's own program says."""

from __future__ import annotations

import subprocess

IDLE_PERCENT = 5.0
TIMEOUT_S = 20
QUERY = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]


def are_busy() -> bool:
    """Whether one of them is; a driver that hangs, or none, says no."""
    try:
        said = subprocess.run(
            QUERY, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return any(float(line) >= IDLE_PERCENT for line in said.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
