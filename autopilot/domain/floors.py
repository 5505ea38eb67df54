"""What simulated bidders have seen of an auction (``pricing.auction.shadows``), as a value like the market."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """The sums of one simulated bidder, of which older hours count less."""

    markup: float
    """Its bids over the cheapest floor, as a factor."""
    held: float = 0.0
    """Hours."""
    without: float = 0.0
    """Hours in which no machine could be had below the limit."""
    losses: float = 0.0
    starts: float = 0.0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Bidders:
    """Of one kind of GPU on one market."""

    tallies: tuple[Tally, ...]
    """One for each markup."""
    storm: Tally
    """Of the last hours alone."""

    @property
    def are_warm(self) -> bool:
        """Whether each has held a machine."""
        return all(tally.held > 0.0 for tally in self.tallies)
