"""What a daemon's day has beside the market of a suite: searches that are old and cut off, machines that load for long,
estimates that are wrong, a record that begins some day.

All draws are seeded by the suite or the run, hence the same for every policy.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from autopilot.domain.params import Deadline
from autopilot_lab.backtest.suite import HOUR_S, BidSuite, Listing

SEARCHES_APART = (1, 1, 2, 3)
"""Ticks between two searches, each as likely. With floors that are two ticks old when they are listed: 20 minutes."""
LOADING_MEDIAN_S, LOADING_SPREAD = 480.0, 0.6
"""Of a log-normal, whose mean is that of the suites' migrate_s: ten minutes."""
SHORTEST_LOADING_S, LONGEST_LOADING_S = 120.0, 1500.0
PREPARING_S = 24.0
"""Of loading and of resuming: the machine is up, its agent reads its orders and fetches what was saved. From here on
the GPU is billed."""
SEES_SAVED_S = 40.0
"""From a checkpoint to the look that knows of it: it is uploaded, and verified by the next look."""
SEES_OUTBID_S = 30.0
"""From an outbid to the answer to it: a look at the market every 15 s, the calls, and the market's own time."""
FIRST_LOOK_S = 45.0
"""From the submit to the first machine: the next look finds the job, the one after has learnt, the third has tables."""
SEES_REFUSED_S = 30.0
"""From a create to the next one where the market has refused it: its answer, and a look at what is left."""
LEFT_OUT_S = 1800.0
"""So long a machine is not shown that refused a create or came to nothing: all policies leave it alone."""
RELEASED_S = 60.0
"""From the end of the work to that of the bill: the agent's report, the next look, the destroy."""


Bars = Literal["", "true", "false"]


@dataclass(frozen=True, slots=True)
class Live:
    """How the daemon's day is played."""

    recorded_h: float = 7 * 24
    """Hours of floors that were recorded before a run starts; 0: it is the first job."""
    estimate_error: float = Deadline().estimate_error
    """The estimate is up to this share too low or too high."""
    search_rows: int = 8
    """A search shows so many machines, the cheapest; 0: all that are listed."""
    reports_progress: bool = False
    """Whether jobs report their progress."""
    bars: Bars = ""
    """Whether what trainers print is recognised in their output: nothing, the job's own bar, or one of something else
    that takes from a hundredth of the job to a little more than all of it."""
    has_estimate: bool = True
    """Whether the policy knows how long the work may be."""
    refuses: bool = False
    """Whether a create is refused whose bid is below the floor that is; or else a paused machine is had for it."""
    duds: float = 0.0
    """This share of launches comes to nothing, on demand too: the machine loads, and then does not work."""

    def bar_s(self, work_s: float, block: str) -> float:
        """How long the work takes that a bar in the output is of; 0: there is none."""
        if self.bars == "false":
            drawn = _draws("bar", block)
            return work_s * (drawn.uniform(0.5, 1.2) if drawn.random() < 0.5 else 10 ** drawn.uniform(-2.0, 0.0))
        return work_s if self.bars else 0.0

    def estimated_work_s(self, work_s: float, block: str) -> float:
        """What the user takes the work for."""
        off = _draws("estimate", block).uniform(-self.estimate_error, self.estimate_error)
        return work_s / (1.0 + off)

    def loading_s(self, block: str, tick: int) -> float:
        """From the create to work, of a machine that is rented in that tick of the run's market."""
        drawn = LOADING_MEDIAN_S * _draws("loading", f"{block} {tick}").lognormvariate(0.0, LOADING_SPREAD)
        return min(max(drawn, SHORTEST_LOADING_S), LONGEST_LOADING_S)

    def is_dud(self, block: str, tick: int) -> bool:
        """Whether a launch in that tick of the run's market comes to nothing."""
        return self.duds > 0 and _draws("dud", f"{block} {tick}").random() < self.duds


def as_searched(suite: BidSuite, live: Live) -> BidSuite:
    """The suite as the daemon's searches show it: some ticks old, the cheapest machines alone.

    A machine that runs for us does not show its floor. Where the suite tells no hosts, each machine has its own.
    """
    listing = suite.listing or Listing(suite.floors, tuple(range(len(suite.floors))))
    shown = _search(listing.shown, live.search_rows, _draws("searches", suite.name))
    return replace(suite, listing=Listing(shown, listing.hosts))


def as_recorded(suite: BidSuite) -> BidSuite:
    """The same for what the daemon itself recorded: that is what its searches have shown."""
    return suite if suite.listing else replace(suite, listing=Listing(suite.floors, tuple(range(len(suite.floors)))))


def recorded_since(start: int, live: Live, tick_s: float) -> int:
    """The first tick of the record that a run starting then may read."""
    return max(start - int(live.recorded_h * HOUR_S / tick_s), 0)


def _search(floors: Sequence[array[float]], rows: int, rng: random.Random) -> tuple[array[float], ...]:
    ticks = len(floors[0])
    shown = tuple(array("d", [inf]) * ticks for _ in floors)
    tick = 0
    while tick < ticks:
        until = min(tick + rng.choice(SEARCHES_APART), ticks)
        listed = sorted((row[tick], number) for number, row in enumerate(floors) if row[tick] < inf)
        for floor, number in listed[: rows or None]:
            shown[number][tick:until] = array("d", [floor]) * (until - tick)
        tick = until
    return shown


def _draws(what: str, of: str) -> random.Random:
    return random.Random(f"{what} {of}")  # noqa: S311
