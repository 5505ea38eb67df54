"""Suites: what a backtest runs over. Two kinds, each a frozen value with its traces decoded.

A policy sees the ``config`` of the market and a job, never the suite itself: a trace holds the future.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

HOUR_S = 3600.0

Pays = Literal["bid", "clearing", "cap"]
PAYS_BID = "pays_bid"
"""A parameter of a policy: it bids as if bids were paid, even if the market charges less."""


@dataclass(frozen=True, slots=True)
class AvailabilityConfig:
    """One market that is on or off, at fixed prices in $/h."""

    kind: ClassVar = "availability"
    tick_s: float
    spot_rate: float
    on_demand_price: float


@dataclass(frozen=True, slots=True)
class AvailabilityRun:
    """One job in one window of one trace."""

    trace: int
    start: int
    """Tick of the trace."""
    ticks: int
    """How long the window is; longer than the deadline."""
    work_s: float
    deadline_s: float
    restart_s: float

    @property
    def setting(self) -> str:
        """What runs of different deadlines have in common."""
        return f"{self.work_s / HOUR_S:g} h of work, restart {self.restart_s / HOUR_S:g} h"

    @property
    def block(self) -> str:
        """Runs of one block see the same prices, and the same random draws."""
        return f"{self.trace}:{self.start}"


@dataclass(frozen=True, slots=True)
class AvailabilitySuite:
    name: str
    config: AvailabilityConfig
    trace_names: tuple[str, ...]
    traces: tuple[bytes, ...]
    """A byte a tick, 1 where spot can be had."""
    runs: tuple[AvailabilityRun, ...]


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a machine has, beside the GPU that on-demand machines have."""

    name: str
    price: float
    """What its floors are beside those of that GPU."""
    speed: float
    """The work it does in an hour, in hours of that GPU."""


@dataclass(frozen=True, slots=True)
class BidConfig:
    """Machines that run the highest bids; rates in $/h."""

    kind: ClassVar = "bids"
    tick_s: float
    on_demand_price: float
    storage_rate: float
    """Billed while a machine is held, running or paused."""
    migrate_s: float
    """No progress at a first run on a machine."""
    resume_s: float
    """No progress when a paused machine runs again."""
    checkpoint_s: float
    """A pause throws the work back to a multiple of this."""
    machines: tuple[str, ...]
    gpus: tuple[GpuModel, ...] = ()
    """Of each machine; none: all have the GPU that on-demand machines have."""

    def speed(self, machine: int | None) -> float:
        """Of a spot machine, or of one on demand."""
        return 1.0 if machine is None or not self.gpus else self.gpus[machine].speed


@dataclass(frozen=True, slots=True)
class BidRun:
    start: int
    work_s: float
    """On the GPU of on-demand machines."""
    deadline_s: float
    """Infinite: there is none."""
    pays: Pays
    """``bid``: a tick that runs costs the bid; ``clearing``: the floor, which all pay; ``cap``: the same, and a machine
    that runs is stopped to change its bid."""
    copy: int = 0
    """Which of several that begin at once (``copies``)."""
    market: str = ""
    """Of several markets, whose runs start at the same ticks: no two have the same random draws."""

    @property
    def setting(self) -> str:
        return f"{self.work_s / HOUR_S:g} h of work, pays {self.pays}"

    @property
    def block(self) -> str:
        start = f"{self.start}.{self.copy}" if self.copy else str(self.start)
        return f"{self.market} {start}" if self.market else start


@dataclass(frozen=True, slots=True)
class Listing:
    """What is shown of a market that does not show all of it. A machine that one holds shows its floor while paused."""

    shown: tuple[array[float], ...]
    """For each machine and tick the floor that can be read then; infinite where the machine is not listed."""
    hosts: tuple[int, ...]
    """The host of each machine. While one runs for us, the host's others cannot be had, nor is its own floor shown."""


@dataclass(frozen=True, slots=True)
class BidSuite:
    name: str
    config: BidConfig
    floors: tuple[array[float], ...]
    """For each machine and tick the lowest bid that runs, $/h; infinite where none does."""
    runs: tuple[BidRun, ...]
    listing: Listing | None = None
    """None: all floors are shown, always."""


Suite = AvailabilitySuite | BidSuite
Config = AvailabilityConfig | BidConfig
Run = AvailabilityRun | BidRun


@dataclass(frozen=True, slots=True)
class AvailabilityJob:
    """What a policy sees of a run."""

    work_s: float
    """An estimate: the truth lies within ``estimate_error`` of it."""
    deadline_s: float
    restart_s: float
    budget: float | None = None
    """Dollars never to be exceeded; none: no limit."""
    estimate_error: float = 0.0
    lag_ticks: int = 0
    """How old the market's state is when it is seen."""
    vanish: float = 0.0
    """Share of ticks in which an on-demand machine, though offered, cannot be had."""


@dataclass(frozen=True, slots=True)
class BidJob:
    """What a policy sees of a run; fields as in ``AvailabilityJob``."""

    work_s: float
    """Infinite: there is no estimate."""
    deadline_s: float
    """Infinite: there is none."""
    pays: Pays
    budget: float | None = None
    estimate_error: float = 0.0
    lag_ticks: int = 0
    vanish: float = 0.0
    is_live: bool = False
    """Whether the daemon's day is played, and not the bare suite."""
    reports_progress: bool = False


Job = AvailabilityJob | BidJob
Params = Mapping[str, float]


def on_demand_cost(config: Config, run: Run) -> float:
    """Dollars of a run that is on demand from its first tick on."""
    if isinstance(config, BidConfig):
        rate, start_s = config.on_demand_price + config.storage_rate, config.migrate_s
    else:
        assert isinstance(run, AvailabilityRun)
        rate, start_s = config.on_demand_price, run.restart_s
    ticks = whole_ticks(run.work_s + start_s, config.tick_s)
    return ticks * config.tick_s / HOUR_S * rate


def whole_ticks(duration_s: float, tick_s: float) -> int:
    """The ticks that a duration takes, a started one counted; what is off by rounding alone starts none."""
    return -int((ROUNDING_S - duration_s) // tick_s)


ROUNDING_S = 1e-6
"""Hours times 3600 are whole seconds but for this."""


MOST_TICKS = 10**9


def ticks_until(deadline_s: float, tick_s: float) -> int:
    """The whole ticks that end by a deadline; without one, more than any trace has."""
    return MOST_TICKS if deadline_s == inf else int((deadline_s + ROUNDING_S) // tick_s)
