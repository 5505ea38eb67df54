"""How what a policy sees differs from what is: the robustness runs. Seeded by run, hence repeatable."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Perturbation:
    estimate_error: float = 0.0
    """The true work is the estimate times 1 + this or 1 - this."""
    lag_ticks: int = 0
    """The market's state is seen that late."""
    vanish: float = 0.0
    """In this share of ticks an on-demand machine cannot be had; one that runs stays."""

    def estimated_work_s(self, work_s: float, block: str) -> float:
        """What the policy takes the work for."""
        if not self.estimate_error:
            return work_s
        sign = random.Random(f"work {block}").choice((-1.0, 1.0))  # noqa: S311
        return work_s / (1.0 + sign * self.estimate_error)

    def delay(self, trace: bytes, start: int, ticks: int) -> bytes:
        """The states as seen; before a trace's first tick its first state is."""
        first = start - self.lag_ticks
        return trace[:1] * max(-first, 0) + trace[max(first, 0) : first + ticks]


EXACT = Perturbation()


def refused_on_demand(perturbation: Perturbation, block: str, ticks: int) -> frozenset[int]:
    """The ticks of a run in which on-demand cannot be started."""
    if not perturbation.vanish:
        return frozenset()
    rng = random.Random(f"vanish {block}")  # noqa: S311
    return frozenset(tick for tick in range(ticks) if rng.random() < perturbation.vanish)
