"""Launches: how often lately something was rented, and how often a market said no."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchCount:
    rented: int = 0
    """Those that were rented, or may yet be."""
    refused: int = 0
    """Those from which nothing came: the market said no, or never showed the machine."""

    def __add__(self, other: LaunchCount) -> LaunchCount:
        return LaunchCount(self.rented + other.rented, self.refused + other.refused)


NO_LAUNCHES = LaunchCount()
