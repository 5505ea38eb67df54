"""The policy's numbers in groups, each with its unit and its source, and the bounds in which they make sense.

Sources: *market* is how a market behaves, as documented under docs/providers · *fitted* on synthetic markets, as in
docs/research/2026-11-auction-experiments.md · *assumed* is a guess on the safe side, to be replaced by measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take on a machine."""

    tick_lag_s: float = 30
    """Seconds. Age of an observation, and time until an action is sent. Source: the daemon's look every 15 s, twice."""
    boot_s: float = 120
    """Seconds from a create to the user's command, without transfers: contract, container, agent. Source: assumed."""
    setup_s: float = 420
    """Seconds. The same with transfers, on a machine that is not chosen yet. Source: assumed."""
    resume_s: float = 60
    """Seconds from a won re-bid to the user's command on the same disk. Source: assumed."""

    def __post_init__(self) -> None:
        if min(self.tick_lag_s, self.boot_s, self.setup_s, self.resume_s) < 0:
            raise ValueError("times must not be negative")


@dataclass(frozen=True, slots=True)
class TrafficSizes:
    """What a machine receives and sends where the job does not say."""

    image_gb: Decimal = Decimal(10)
    """GB that a new machine downloads: the image and what setup fetches. Source: assumed."""
    upload_gb: Decimal = Decimal(5)
    """GB that a machine uploads in its life: checkpoints and logs. Source: assumed."""
    home_mbps: Decimal | None = None
    """Megabits per second at which a machine gets code and checkpoint from the daemon's own line, where storage goes
    over it; None: as fast as the machine's own link. Source: the settings."""

    def __post_init__(self) -> None:
        if self.home_mbps is not None and self.home_mbps <= 0:
            raise ValueError("a line has a speed")


@dataclass(frozen=True, slots=True)
class Deadline:
    """What is kept free before a deadline."""

    estimate_error: float = 0.15
    """Share by which the user's estimate may be too low. Source: assumed."""
    held_share: float = 0.6
    """Share of the first slack that is held for such an error at the most. An estimate that is 15 % too low for a
    deadline of 1.1 × the true work needs 0.58. Source: calculated."""
    least_stretch: float = 1.08
    """A deadline is taken to be so many times the work, or more, where the work is known by an estimate alone: no time
    is held for longer work. Source: assumed; on demand a day of work needs 4 % beside it."""
    pace_error: float = 0.01
    """Share by which what is left may take longer than by the job's own pace. Source: assumed."""
    pace_known_at: float = 0.03
    """Share of the job that must be done for its pace to be trusted so far; before, in proportion. Source: assumed."""
    recognised_trust: float = 0.9
    """Share of the held time that progress recognised in the output frees at the most. Source: assumed."""
    recognised_known_at: float = 0.05
    """Share of the job that recognised progress must have been seen over for that; before, in proportion. More than
    for the job's own word. Source: assumed."""
    on_demand_margin_s: float = 300
    """Seconds for on-demand offers that vanish as they are chosen. Source: assumed."""
    horizon_s: float = 3600
    """Seconds of work assumed to remain without an estimate; only compares offers. Source: assumed."""

    def __post_init__(self) -> None:
        if not 0 <= self.estimate_error <= 2:
            raise ValueError("estimate_error must be in 0..2")
        if self.least_stretch < 1:
            raise ValueError("least_stretch must be at least 1")
        if not 0 <= self.held_share <= 1 or not 0 <= self.pace_error <= 2 or not 0 < self.pace_known_at <= 1:
            raise ValueError("held_share must be in 0..1, pace_error in 0..2 and pace_known_at above 0, up to 1")
        if not 0 <= self.recognised_trust < 1 or not 0 < self.recognised_known_at <= 1:
            raise ValueError("recognised_trust must be in 0..1, less than 1, and recognised_known_at above 0, up to 1")


GROWTH, MOST_GROWN = 1.5, 10
"""By which a machine is waited for longer after each silent one, so often at the most."""


@dataclass(frozen=True, slots=True)
class Loading:
    """When a machine is given up."""

    timeout_s: float = 1500
    """Seconds of loading. Source: market; slow hosts were observed loading for 25 minutes."""
    known_factor: float = 2.0
    """So many times the longest that the image took on the market's machines is waited for. Source: assumed."""
    known_least_s: float = 600
    """And so many seconds at the least. Source: market; sound hosts were observed pulling for ten minutes."""
    preparing_least_s: float = 7200
    """Seconds for inputs, ``setup`` and restoring once the agent speaks, beside the time to fill the disk.
    Source: assumed."""
    preparing_mbps: float = 100
    """Mbit/s at which the disk is filled meanwhile. Source: assumed, a slow link."""
    first_word_s: float = 420
    """Seconds that a virtual machine runs without a word from its own program, which speaks before the image is pulled.
    Source: assumed; the system is up within some minutes."""
    silence_s: float = 900
    """Seconds that a machine runs without a message from its agent. Source: assumed."""
    offline_grace_s: float = 150
    """Seconds for which a host does not answer. Source: assumed."""
    most_dead_hosts: int = 16
    """Hosts in a row that never ran the command and did not say why; then the job fails. Where 58 % of hosts never boot
    that many in a row are one chance in 6,000. Source: one renter's report."""
    most_failed_starts: int = 32
    """Machines in a row that never ran the command, for any reason; then the job fails. Source: assumed."""
    most_left_at_once: int = 8
    """Machines in a row that are left because their host is known to fail; then one is waited for. Source: assumed."""
    most_invalid: int = 4
    """Creates in a row that a market calls invalid; then the job fails. Source: assumed."""
    lost_share: float = 0.5
    """Share of the job's budget that machines in a row may cost which never ran the command; then the job fails.
    Source: assumed."""

    def __post_init__(self) -> None:
        if self.preparing_least_s < 0 or self.preparing_mbps <= 0:
            raise ValueError("preparing_least_s must not be negative and preparing_mbps above 0")

    def patience_s(self, longest_s: float | None, silent: int) -> float:
        """Seconds for which a machine may be silent before it is given up.

        ``longest_s``: the longest that the image took on the market's machines; None: it has come up on none, or
        nothing counts. ``silent``: machines in a row before it that did not say why they failed, as far as they count.
        A host whose disk has the image's layers says little of one that has to fetch them: hence the least, and the
        growth, without which an image that takes longer than it did would come up nowhere.
        """
        if longest_s is None:
            return self.timeout_s
        usual_s = max(self.known_least_s, self.known_factor * longest_s)
        return min(usual_s * _growth(silent), self.timeout_s)

    def first_word_patience_s(self, silent: int) -> float:
        """The same of a virtual machine that runs, until its own program is heard."""
        return min(self.first_word_s * _growth(silent), self.silence_s)


def _growth(silent: int) -> float:
    return float(GROWTH ** min(silent, MOST_GROWN))


@dataclass(frozen=True, slots=True)
class BidRules:
    """BidRules by the rule, and what bounds every bid."""

    markup: Decimal = Decimal("1.05")
    """A first bid over the floor, as a factor: enough not to be displaced by the next cent. Source: assumed."""
    ceiling_of_on_demand: Decimal = Decimal("0.90")
    """Share of the on-demand price that no bid reaches. Source: market; an on-demand renter outranks any bid."""
    unit: Decimal = Decimal("0.001")
    """$/h. BidRules are multiples of it. Source: market."""
    least: Decimal = Decimal("0.001")
    """$/h. The lowest bid. Source: market."""
    over_winning: Decimal = Decimal("1.10")
    """A raise over the bid that is known to win, as a factor: a rival seldom bids but once. Source: fitted."""
    max_rebids: int = 2
    """Raises of one machine; then an on-demand renter has it, who outranks any bid. Source: market."""
    rebid_settle_s: float = 90
    """Seconds in which a raise may bring the machine back before the next answer. Source: assumed."""

    def __post_init__(self) -> None:
        if not Decimal(1) <= self.over_winning <= 10:
            raise ValueError("over_winning must be in 1..10")
        if not Decimal(1) <= self.markup <= 10:
            raise ValueError("markup must be in 1..10")
        if not Decimal(0) < self.ceiling_of_on_demand < 1:
            raise ValueError("ceiling_of_on_demand must be above 0 and below 1")
        if self.max_rebids < 0:
            raise ValueError("max_rebids must be at least 0")


@dataclass(frozen=True, slots=True)
class LostBidRules:
    """How long a bid that lost keeps the next one on that machine above it."""

    first_h: float = 1.0
    """Hours after the first loss; doubled by each further one. Source: market; bids near the floor were seen to hold a
    machine for 45 to 150 minutes."""
    most_h: float = 6.0
    """Hours at the most. Source: assumed."""

    def __post_init__(self) -> None:
        if not 0 < self.first_h <= self.most_h:
            raise ValueError("first_h must be above 0 and at most most_h")


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long nothing runs."""

    longest_pause_s: float = 900
    """Seconds of waiting on a paused machine where there is no other offer. Source: assumed."""
    idle_margin: float = 0.001
    """Share of all remaining cost that waiting must save while there is something to rent. Source: assumed."""


@dataclass(frozen=True, slots=True)
class Moves:
    """When a job that runs is moved to a cheaper machine."""

    least_saving: Decimal = Decimal("0.15")
    """Share of all remaining cost that the move must save. Source: assumed."""
    least_stay_s: float = 1800
    """Seconds on a machine before it is left for a price. Source: fitted at auctions, elsewhere assumed."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """Losses of spot machines before any were observed."""

    preemptions_per_h: float = 0.25
    """Losses in an hour, the prior; each costs a set-up and half a checkpoint interval. Source: assumed."""
    prior_h: float = 20
    """Hours of own history that weigh as much as the prior, or as a wider group of machines. Source: assumed."""

    def __post_init__(self) -> None:
        if self.preemptions_per_h < 0:
            raise ValueError("hazard.preemptions_per_h must be at least 0")


@dataclass(frozen=True, slots=True)
class Auction:
    """Where spot machines are auctioned and floors are on record."""

    rebid_gap_s: float = 300
    """Seconds between two raises on one machine. Source: assumed."""

    def __post_init__(self) -> None:
        if self.rebid_gap_s < 0:
            raise ValueError("rebid_gap_s must be at least 0")


@dataclass(frozen=True, slots=True)
class Budget:
    """The parts of what a safe stop costs (docs/explanation/money.md)."""

    detect_s: float = 60
    """Seconds until a loss is noticed. Source: two looks at the market, and some."""
    save_timeout_s: float = 300
    """Seconds that a planned move or a parking waits for the last checkpoint. Source: assumed."""
    destroy_s: float = 60
    """Seconds until a destroy ends the bill for compute. Source: assumed."""
    tail_h: float = 24
    """Hours of disk to pay for should the destroy be slow to take. Source: assumed."""
    unwatched_h: float = 1
    """Hours that a machine which cannot end its own bill may run before somebody ends it by hand, should the daemon be
    lost. Source: assumed."""
    settle_s: float = 300
    """Seconds within which a create whose outcome is unknown may still land. Source: assumed."""

    def __post_init__(self) -> None:
        times = self.detect_s, self.save_timeout_s, self.destroy_s, self.tail_h, self.unwatched_h, self.settle_s
        if min(times) < 0:
            raise ValueError("times must not be negative")


@dataclass(frozen=True, slots=True)
class Params:
    """All numbers of the policy. Building any group raises ``ValueError`` for numbers that make no sense."""

    timing: Timing = field(default_factory=Timing)
    traffic: TrafficSizes = field(default_factory=TrafficSizes)
    deadline: Deadline = field(default_factory=Deadline)
    loading: Loading = field(default_factory=Loading)
    bids: BidRules = field(default_factory=BidRules)
    lost_bids: LostBidRules = field(default_factory=LostBidRules)
    waiting: Waiting = field(default_factory=Waiting)
    moves: Moves = field(default_factory=Moves)
    hazard: Hazard = field(default_factory=Hazard)
    auction: Auction = field(default_factory=Auction)
    budget: Budget = field(default_factory=Budget)

    def tune(self, numbers: Mapping[str, float]) -> Params:
        """These with some numbers replaced, by the names of ``TUNABLE``; raises ``KeyError`` for other names."""
        groups: dict[str, dict[str, float]] = {}
        for name, value in numbers.items():
            group, number = TUNABLE[name]
            groups.setdefault(group, {})[number] = value
        changed = {group: replace(getattr(self, group), **values) for group, values in groups.items()}
        return replace(self, **changed)


TUNABLE: Mapping[str, tuple[str, str]] = {
    "tick_lag_s": ("timing", "tick_lag_s"),
    "boot_s": ("timing", "boot_s"),
    "setup_s": ("timing", "setup_s"),
    "resume_s": ("timing", "resume_s"),
    "estimate_error": ("deadline", "estimate_error"),
    "held_share": ("deadline", "held_share"),
    "least_stretch": ("deadline", "least_stretch"),
    "pace_error": ("deadline", "pace_error"),
    "pace_known_at": ("deadline", "pace_known_at"),
    "recognised_trust": ("deadline", "recognised_trust"),
    "recognised_known_at": ("deadline", "recognised_known_at"),
    "on_demand_margin_s": ("deadline", "on_demand_margin_s"),
    "horizon_s": ("deadline", "horizon_s"),
    "loading_timeout_s": ("loading", "timeout_s"),
    "known_factor": ("loading", "known_factor"),
    "known_least_s": ("loading", "known_least_s"),
    "preparing_least_s": ("loading", "preparing_least_s"),
    "preparing_mbps": ("loading", "preparing_mbps"),
    "first_word_s": ("loading", "first_word_s"),
    "silence_s": ("loading", "silence_s"),
    "offline_grace_s": ("loading", "offline_grace_s"),
    "most_dead_hosts": ("loading", "most_dead_hosts"),
    "most_failed_starts": ("loading", "most_failed_starts"),
    "most_left_at_once": ("loading", "most_left_at_once"),
    "most_invalid": ("loading", "most_invalid"),
    "lost_share": ("loading", "lost_share"),
    "max_rebids": ("bids", "max_rebids"),
    "rebid_settle_s": ("bids", "rebid_settle_s"),
    "lost_bid_first_h": ("lost_bids", "first_h"),
    "lost_bid_most_h": ("lost_bids", "most_h"),
    "longest_pause_s": ("waiting", "longest_pause_s"),
    "idle_margin": ("waiting", "idle_margin"),
    "least_stay_s": ("moves", "least_stay_s"),
    "hazard_per_h": ("hazard", "preemptions_per_h"),
    "hazard_prior_h": ("hazard", "prior_h"),
    "rebid_gap_s": ("auction", "rebid_gap_s"),
    "detect_s": ("budget", "detect_s"),
    "save_timeout_s": ("budget", "save_timeout_s"),
    "destroy_s": ("budget", "destroy_s"),
    "tail_h": ("budget", "tail_h"),
    "unwatched_h": ("budget", "unwatched_h"),
    "settle_s": ("budget", "settle_s"),
}
"""What a backtest may set by name, and where it is; prices in dollars, shares of them and traffic stay as they are."""
