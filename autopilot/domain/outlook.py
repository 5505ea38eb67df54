"""What is known of the markets beyond this moment: how long machines lasted, how floors moved, what to expect of spot.

An outlook is a value like the market itself: it is made from the ledger and the recorded prices outside the policy,
handed to it, and recorded with it. An empty one is allowed: then only the policy's priors speak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autopilot.domain.floors import Bidders

LEAST_PROBABILITY = 0.8
"""A job that is less likely to be done by its deadline, money aside, is refused unless the user asks for less."""
AGE_EDGES_H = (0.5, 2.0, 8.0, 24.0)
"""Ages at which the hazard of a running spot machine may change: bins 0-½ h, ½-2 h, 2-8 h, 8-24 h, above."""


@dataclass(frozen=True, slots=True)
class ObservedTime:
    """Hours that spot machines ran and how many were lost in them; a run that still goes on counts its hours only."""

    hours: float = 0.0
    losses: float = 0.0

    def __add__(self, other: ObservedTime) -> ObservedTime:
        return ObservedTime(self.hours + other.hours, self.losses + other.losses)


@dataclass(frozen=True, slots=True)
class Lives:
    """Exposures of one group of machines, one per age bin (``AGE_EDGES_H``)."""

    by_age: tuple[ObservedTime, ...] = (ObservedTime(),) * (len(AGE_EDGES_H) + 1)

    @property
    def total(self) -> ObservedTime:
        return sum(self.by_age, ObservedTime())

    def with_run(self, hours: float, *, lost: bool) -> Lives:
        """One more run that lasted so long, lost at its end or not (released, or still going: censored)."""
        bins, start = list(self.by_age), 0.0
        for number, end in enumerate((*AGE_EDGES_H, float("inf"))):
            ends_here = hours <= end
            bins[number] += ObservedTime(min(hours, end) - start, 1.0 if lost and ends_here else 0.0)
            if ends_here:
                break
            start = end
        return Lives(tuple(bins))


LivesKey = tuple[str, str, str]
"""(provider, "gpu" | "host" | "machine", its name or id)."""


@dataclass(frozen=True, slots=True)
class PhaseModel:
    """Spot capacity as hidden phases of a market: a Markov chain of which only on or off is seen.

    Several phases of one sign make lifetimes of any shape; groups of phases that rarely change into one another are
    kinds of markets (calm, busy). ``autopilot_lab.backtest.fit`` estimates it.
    """

    on: tuple[bool, ...]
    """For each phase, whether spot can be had in it."""
    moves: tuple[tuple[float, ...], ...]
    """Probability of each phase (column) ``step_s`` after each phase (row); rows sum to 1."""
    step_s: float = 600.0


Belief = tuple[float, ...]
"""Probability of each phase of a ``PhaseModel`` after all that was seen."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that a table of costs to go depends on (``policy.value``)."""

    phases: PhaseModel
    longest_s: float
    """Largest time left that is asked for."""
    most_slack_s: float
    restart_s: float
    """From choosing other capacity to work going on."""
    spot_ratio: float
    """Spot price over the on-demand price, disk included in both."""
    hazard_per_h: float = 0.0
    """Losses of a running machine while the market has others."""
    lost_s: float = 0.0
    """Work that a loss throws back, at the mean."""


@dataclass(frozen=True, slots=True)
class Outlook:
    lives: Mapping[LivesKey, Lives] = field(default_factory=dict)
    shape: Shape | None = None
    """Shape of this job's table, if it has been calculated: the policy itself calculates none while it decides."""
    belief: Belief = ()
    """For each phase of the shape: the chance that spot capacity for the job is available."""
    bidders: Bidders | None = None
    """What simulated bidders have seen, where spot machines are auctioned and floors are on record."""
    recorded_h: float | None = None
    """Hours of floors on record of what the job bids on; None: not looked up, or it bids on no such market."""
    is_learning: bool = False
    """Bids will come from floors that are on record in a moment: the first machine can wait for that."""
