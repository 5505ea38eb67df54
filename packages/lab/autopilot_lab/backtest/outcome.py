"""What became of one run under one policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["finished", "late", "parked", "refused"]


@dataclass(slots=True)
class Outcome:
    """Dollars and counts of one run; ``cost`` is the sum of the four kinds of it."""

    status: Status = "late"
    """``late``: after the deadline or not at all. ``refused``: given up in the first tick, ``parked``: later."""
    spot: float = 0.0
    on_demand: float = 0.0
    storage: float = 0.0
    lost: float = 0.0
    """Paid for machines that started, and for work that was thrown back."""
    pauses: int = 0
    """Spot runs that the market ended."""
    migrations: int = 0
    """Planned moves: something else was still held."""
    refused: int = 0
    """Creates that the market refused."""
    duds: int = 0
    """Launches that came to nothing."""
    done_s: float = 0.0
    """Work that was done by the end, on the GPU of on-demand machines."""
    decisions: int = 0
    deciding_s: float = 0.0
    """Real time spent in the policy."""

    @property
    def cost(self) -> float:
        return self.spot + self.on_demand + self.storage + self.lost
