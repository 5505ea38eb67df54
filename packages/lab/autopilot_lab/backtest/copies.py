"""Several jobs of the same policy that begin at once on one market, each for itself: what they cost one another.

Each copy sees the others as it sees any rival: the machine that one of them has costs more than it bids. They act one
after the other in a tick, in turn: what one bids is the floor of those after it, and of all from the next tick on. A
launch that wins a machine from another runs beside it for the rest of that tick, while it loads.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autopilot_lab.backtest.bids import TICKS_AFTER_DEADLINE, BidPlay, BidView
from autopilot_lab.backtest.live import recorded_since
from autopilot_lab.backtest.live_run import LiveRunState
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, Start, estimated_job
from autopilot_lab.backtest.suite import BidJob, BidRun, BidSuite, Listing, ticks_until

MOST_COPIES = 64
OVER = 1.001
"""A machine is won from a copy by so many times its bid."""


@dataclass(slots=True)
class _Copy:
    play: BidPlay
    state: LiveRunState
    floors: tuple[array[float], ...]
    """As it finds them: what others bid is in them."""
    shown: tuple[array[float], ...]
    raised: set[int] = field(default_factory=set)
    """The machines that others had when it looked last."""
    is_over: bool = False


def play_copies(suite: BidSuite, run: BidRun, start: Start, conditions: Conditions, copies: int) -> list[Outcome]:
    """The outcome of each of them, as live. ``suite``: of ``as_searched``; each has its own estimate and loading times.

    Raises ValueError for a number of copies that is not in 1..64, or where the conditions are not as live.
    """
    if not 1 <= copies <= MOST_COPIES or conditions.live is None:
        raise ValueError(f"1 to {MOST_COPIES} copies are played, as live")
    playing = [_begin(suite, replace(run, copy=number), start, conditions) for number in range(copies)]
    due = ticks_until(run.deadline_s, suite.config.tick_s)
    ticks = min(due + TICKS_AFTER_DEADLINE, len(suite.floors[0]) - 1 - run.start)
    for tick in range(ticks):
        # Each is the first one as often as the others.
        turn = tick % copies
        for number in (*range(turn, copies), *range(turn)):
            copy = playing[number]
            if copy.is_over:
                continue
            _see_others(suite, copy, playing, run.start + tick)
            copy.is_over = copy.play.step(tick)
        if all(copy.is_over for copy in playing):
            break
    for copy in playing:
        copy.state.outcome.done_s = copy.state.done_s
    return [copy.state.outcome for copy in playing]


def _begin(suite: BidSuite, run: BidRun, start: Start, conditions: Conditions) -> _Copy:
    assert conditions.live is not None
    assert suite.listing is not None, "of as_searched"
    job = estimated_job(suite, run, conditions)
    assert isinstance(job, BidJob)
    floors, shown = (tuple(row[:] for row in rows) for rows in (suite.floors, suite.listing.shown))
    state = LiveRunState(suite.config, run, floors, Outcome(), conditions.live)
    recorded_from = recorded_since(run.start, conditions.live, suite.config.tick_s)
    view = BidView(floors, Listing(shown, suite.listing.hosts), recorded_from)
    return _Copy(BidPlay(suite.config, run, state, view, start(suite.config, job), job), state, floors, shown)


def _see_others(suite: BidSuite, copy: _Copy, playing: Sequence[_Copy], at: int) -> None:
    """In that tick of the traces and the next one, the machines that other copies have cost more than these bid."""
    needed: dict[int, float] = {}
    for other in playing:
        if other is not copy and not other.is_over:
            for machine, bid in other.state.bids.items():
                needed[machine] = max(needed.get(machine, 0.0), bid * OVER)
    for machine in copy.raised | needed.keys():
        least = needed.get(machine, 0.0)
        for tick in (at, at + 1):
            copy.floors[machine][tick] = max(suite.floors[machine][tick], least)
        copy.shown[machine][at] = max(copy.shown[machine][at], least)
    copy.raised = set(needed)
