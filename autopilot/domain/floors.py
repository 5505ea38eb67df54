"""How the floors of spot machines move: what the recorded ones say of the next step. A value, like the market."""

from __future__ import annotations

from dataclasses import dataclass, field

RATIO_EDGES = (
    0.5, 0.8, 0.93, 0.98, 0.9999, 1.0001, 1.005, 1.01, 1.02, 1.035, 1.05, 1.075, 1.1, 1.15, 1.2,
    1.3, 1.4, 1.6, 2.0, 3.0, 5.0, float("inf"),
)  # fmt: skip
"""Upper edges of the bins of next floor over floor. A bid of the floor times an edge wins against all below it."""

RISES = (1.01, 1.04, 1.09, 1.16, 1.3, float("inf"))
"""Upper edges of how far a floor is above the calm floor of its machine, as a ratio."""

Sizes = tuple[tuple[float, ...], ...]
"""[rise][ratio bin] → probability of a next floor in that bin; a rise's sum is 1."""

Jumps = tuple[tuple[tuple[tuple[int, float], ...], ...], ...]
"""[level][ratio bin] → (level of the next floor, probability) where that is above zero; a level's sum is 1."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How the floor of one machine moves, the pool mixed in."""

    calm: float
    """$/h: its floor while it has no bidder."""
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class MarkupReplay:
    """What bids of one markup would have cost on the record (``pricing.auction.replays``)."""

    markup: float
    """A bid over the floor, as a factor."""
    paid: float
    """$ for an hour of work."""
    lost: float
    """Hours in which nothing was done, for an hour of work."""


@dataclass(frozen=True, slots=True)
class FloorOutlook:
    """One-step jumps of floors, by level, of all machines together and of those that are known well by themselves.

    The level determines where a jump leads; the floor's distance above the machine's calm floor, how likely it is.

    Floors in $/h. The last level covers floors that no bid may reach, and machines that are gone.
    """

    step_s: float
    edges: tuple[float, ...]
    """Upper edges of the levels but the last; a floor equal to an edge is below it."""
    typical: tuple[float, ...]
    """A representative floor of each level."""
    ratios: tuple[tuple[float, ...], ...]
    """[level][ratio bin] → mean of next floor over floor."""
    pooled: Jumps
    own: tuple[tuple[str, Jumps], ...]
    """(machine, its jumps), the pool mixed in."""
    habits: tuple[tuple[str, Habit], ...]
    """For every machine that was seen twice in a row."""
    usual: Sizes
    """Over all machines."""
    classes: tuple[float, ...]
    """Upper edges of the classes, but the last, of the cheapest floor to be had: of what else there is to rent."""
    cheapest: tuple[float, ...]
    """A representative floor of each class."""
    moves: tuple[tuple[float, ...], ...]
    """[class] → probability of each class of the cheapest floor a step later."""
    others: tuple[tuple[float, ...], ...]
    """[class] → probability of each class of the second cheapest floor: what else there is beside the cheapest."""
    replayed: tuple[MarkupReplay, ...] = ()
    """What each candidate markup would have cost."""
    replayed_steps: float = 0.0
    """Steps of the record that these are of, newer ones weighing more."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Of many thousand numbers, and asked for at each look-up of a table: once is enough.
        parts = (self.step_s, self.edges, self.typical, self.ratios, self.pooled, self.own, self.habits, self.usual)
        elsewhere = (self.classes, self.cheapest, self.moves, self.others)
        object.__setattr__(self, "_hash", hash((parts, elsewhere)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class AuctionShape:
    """All that the tables of costs to go at an auction depend on (``policy.auction_tables``). Rates in $/h."""

    floors: FloorOutlook
    longest_work_s: float
    on_demand_price: float
    storage_rate: float
    """Billed while a machine is held, running or paused."""
    ceiling: float
    """No bid is above it."""
    bills_at_bid: bool
    """Else the floor is paid."""
    migrate_s: float
    """No progress at a first run on a machine."""
    resume_s: float
    """No progress when a paused machine runs again."""
    checkpoint_s: float
    """A pause throws the work back to the last of checkpoints so far apart."""
    reserve_s: float
    """Kept free before the deadline when on-demand capacity is fallen back to."""
    shows_running: bool = True
    """Whether the floor of a machine is seen while one's own bid runs there; else its falls are not, and the bid that
    was made is paid on."""
    lost_per_h: float = 0.0
    """Chance, an hour, that a machine is lost at any bid: to on-demand renters, or because its offer ends."""
