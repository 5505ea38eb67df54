"""Where time comes from, as the product asks for it.

*Market time* is what policy, leases, billing, polls and pacing use; socket timeouts, URL signatures and
sd_notify stay on real seconds (``speed`` converts).
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    @property
    def speed(self) -> float:
        """Market seconds per real second."""
        ...

    def now(self) -> datetime:
        """Market time, aware UTC."""
        ...

    def monotonic(self) -> float:
        """Market seconds since an arbitrary point; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` of market time."""
        ...
