"""How far the job says it is."""

from __future__ import annotations

import json


def read_progress(path: str) -> tuple[int | None, float | None]:
    """(step, fraction done) from the file that the job keeps, as it claims them."""
    try:
        with open(path) as file:
            claim = json.loads(file.read(4096))
        step, fraction = claim.get("step"), claim.get("progress")
    except (OSError, ValueError, AttributeError):
        return None, None
    known = type(fraction) in (int, float) and fraction == fraction
    return step if type(step) is int and 0 <= step < 2**53 else None, min(max(fraction, 0), 1) if known else None
