"""Who gets a machine's GPUs.

On-demand claims come first, then the highest price per GPU; a tie goes to the one that already holds its GPUs,
then to the earlier arrival. A bid below the host's floor never wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Claim:
    """A wish to hold ``gpu_ids``, all of them or none. ``price_per_gpu`` ($/h) is ``None`` for on-demand."""

    key: str
    gpu_ids: frozenset[int]
    price_per_gpu: Fraction | None
    incumbent: bool
    arrival: int

    @property
    def rank(self) -> tuple[int, Fraction, int, int]:
        """Smaller is stronger. Among on-demand claims the incumbent always stays."""
        on_demand_first = 0 if self.price_per_gpu is None else 1
        return (on_demand_first, -(self.price_per_gpu or Fraction(0)), 0 if self.incumbent else 1, self.arrival)


def allocate(claims: Iterable[Claim], floor_per_gpu: Fraction) -> frozenset[str]:
    """Keys of the claims that hold their GPUs now; no GPU is given twice."""
    taken: set[int] = set()
    winners: set[str] = set()
    for claim in sorted(claims, key=lambda claim: claim.rank):
        below_floor = claim.price_per_gpu is not None and claim.price_per_gpu < floor_per_gpu
        if not below_floor and taken.isdisjoint(claim.gpu_ids):
            taken |= claim.gpu_ids
            winners.add(claim.key)
    return frozenset(winners)
