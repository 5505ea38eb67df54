"""What a policy may answer in a tick, for both kinds of suite."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Choice(Enum):
    NONE = "none"
    """Nothing runs; a held machine is destroyed."""
    SPOT = "spot"
    """Availability suites only; bid suites answer ``Spot``."""
    ON_DEMAND = "on_demand"
    KEEP = "keep"
    """Bid suites only: the held machine stays paused, its disk kept and billed."""
    PARK = "park"
    """Give the run up for good: refused in the first tick, parked later."""


class Spot(NamedTuple):
    """Bid suites: run on that machine at that bid, if its next floor allows."""

    machine: int
    bid: float
    """$/h."""
