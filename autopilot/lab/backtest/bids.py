"""The exact model of bid suites: one job, a few machines with floors, on-demand always there, a tick at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter

from autopilot.lab.backtest.choices import Choice, Spot
from autopilot.lab.backtest.outcome import Outcome
from autopilot.lab.backtest.perturbation import EXACT, Perturbation, refused_on_demand
from autopilot.lab.backtest.suite import HOUR_S, ROUNDING_S, BidConfig, BidJob, BidRun, Listing, ticks_until

NONE, SPOT, ON_DEMAND, KEEP, PARK = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.KEEP, Choice.PARK

TICKS_AFTER_DEADLINE = 2
"""A run that has not finished by then is left: it is late in any case."""


class BidView:
    """What a policy sees in a tick. One object a run, overwritten each tick: keep numbers, not the view."""

    __slots__ = (
        "_floors", "_hosts", "_seen", "_truth", "bid", "floors", "is_set_up", "machine", "pending_s", "running",
        "safe_left_s", "spent", "tick", "ticks_left", "work_left_s",
    )  # fmt: skip

    tick: int
    ticks_left: int
    """Whole ticks until the deadline, this one included; negative after it."""
    work_left_s: float
    """By the estimate that the policy has; never below 0."""
    safe_left_s: float
    """Work left if the run were paused now: counted from the last checkpoint."""
    running: Choice
    """NONE (nothing is held), KEEP (a machine is held, paused), SPOT or ON_DEMAND."""
    machine: int | None
    """The spot machine that is held, running or paused."""
    bid: float
    """The last bid on it; 0 where none is held."""
    is_set_up: bool
    """Whether the held machine needs but a resume to run."""
    pending_s: float
    """Set-up or resume time still to be served by what runs."""
    floors: Sequence[float]
    """The newest floor of each machine, $/h; infinite where none is shown."""
    spent: float

    def __init__(self, floors: Sequence[array[float]], listing: Listing | None = None) -> None:
        self._truth = floors
        self._floors = floors if listing is None else listing.shown
        self._hosts = None if listing is None else listing.hosts
        self._seen = 0

    @property
    def shows_running(self) -> bool:
        """Whether the floor of the machine that runs is shown."""
        return self._hosts is None

    @property
    def ticks_seen(self) -> int:
        """How many floors of each machine are known, those before the run's start included."""
        return self._seen

    def history(self, machine: int, ticks: int) -> array[float]:
        """The newest ``ticks`` floors of a machine, oldest first; fewer where fewer are known."""
        return self._floors[machine][max(self._seen - ticks, 0) : self._seen]

    def show(self, seen: int, held: int | None = None, *, runs: bool = False) -> None:
        """Reveals the floors up to that many, given the machine that is held; for the model, not for policies."""
        self._seen = seen
        newest = max(seen - 1, 0)
        self.floors = shown = [floors[newest] for floors in self._floors]
        if self._hosts is not None and held is not None:
            if not runs:
                shown[held] = self._truth[held][newest]
                return
            for machine, host in enumerate(self._hosts):
                if host == self._hosts[held]:
                    shown[machine] = inf


BidChooser = Callable[[BidView], Choice | Spot]


def play_bids(
    config: BidConfig,
    run: BidRun,
    floors: Sequence[array[float]],
    choose: BidChooser,
    job: BidJob,
    perturbation: Perturbation = EXACT,
    observe: Callable[[BidView, Choice | Spot], None] | None = None,
    listing: Listing | None = None,
) -> Outcome:
    """One run under one policy. ``floors`` are the whole traces; only what the model and ``listing`` allow is shown.

    ``observe`` receives each tick's view and answer. Raises ValueError for an answer that the model does not know.
    """
    tick_s, checkpoint_s = config.tick_s, config.checkpoint_s
    tick_h = tick_s / HOUR_S
    storage = config.storage_rate * tick_h
    bills_at_bid = run.pays == "bid"
    ticks_to_deadline = ticks_until(run.deadline_s, tick_s)
    ticks = min(ticks_to_deadline + TICKS_AFTER_DEADLINE, len(floors[0]) - 1 - run.start)
    refused = refused_on_demand(perturbation, run.block, ticks)
    enough_s = run.work_s - ROUNDING_S
    outcome = Outcome()
    view = BidView(floors, listing)
    running, bid, rate, is_set_up = NONE, 0.0, 0.0, False
    machine: int | None = None
    done_s = safe_s = pending_s = deciding_s = 0.0
    tick = 0
    for tick in range(ticks):
        view.show(max(run.start + tick + 1 - perturbation.lag_ticks, 1), machine, runs=running is SPOT)
        view.tick = tick
        view.ticks_left = ticks_to_deadline - tick
        view.work_left_s = max(job.work_s - done_s, 0.0)
        view.safe_left_s = max(job.work_s - safe_s, 0.0)
        view.running, view.machine, view.bid, view.is_set_up = running, machine, bid, is_set_up
        view.pending_s = pending_s
        view.spent = outcome.cost
        began = perf_counter()
        choice = choose(view)
        deciding_s += perf_counter() - began
        if observe is not None:
            observe(view, choice)
        if choice is PARK:
            outcome.status = "parked" if tick else "refused"
            break
        if choice is ON_DEMAND and running is not ON_DEMAND and tick in refused:
            # A refused move leaves what ran where it was.
            choice = NONE if machine is None else Spot(machine, bid)
        before = running
        if type(choice) is Spot:
            if choice.machine != machine:
                if before is not NONE:
                    outcome.migrations += 1
                machine, before, is_set_up = choice.machine, NONE, False
            bid = choice.bid
            floor = floors[machine][run.start + tick + 1]
            if bid >= floor:
                if before is not SPOT:
                    pending_s = config.resume_s if is_set_up else config.migrate_s
                running, rate, is_set_up = SPOT, bid if bills_at_bid else floor, True
            else:
                # A machine that was won by today's floor is set up even where it is lost before it runs.
                running, is_set_up = KEEP, is_set_up or bid >= floors[machine][run.start + tick]
        elif choice is ON_DEMAND:
            if before is not ON_DEMAND:
                if before is not NONE:
                    outcome.migrations += 1
                pending_s = config.migrate_s
            running, machine, bid, rate, is_set_up = ON_DEMAND, None, 0.0, config.on_demand_rate, False
        elif choice is KEEP and machine is not None:
            running = KEEP
        elif choice is NONE:
            running, machine, bid, is_set_up = NONE, None, 0.0, False
        else:
            raise ValueError(f"not an answer on a bid suite now: {choice}")
        if running is NONE:
            continue
        outcome.storage += storage
        if running is KEEP:
            if before is SPOT:
                # A pause loses the work since the last checkpoint; a planned move saves it first.
                outcome.pauses += 1
                thrown_back = rate * (done_s - safe_s) / HOUR_S
                outcome.spot -= thrown_back
                outcome.lost += thrown_back
                done_s = safe_s
            continue
        served_s = pending_s if pending_s < tick_s else tick_s
        pending_s -= served_s
        done_s += tick_s - served_s
        safe_s = done_s // checkpoint_s * checkpoint_s
        lost = rate * served_s / HOUR_S
        outcome.lost += lost
        if running is SPOT:
            outcome.spot += rate * tick_h - lost
        else:
            outcome.on_demand += rate * tick_h - lost
        if done_s >= enough_s:
            outcome.status = "finished" if tick < ticks_to_deadline else "late"
            break
    outcome.decisions = tick + 1
    outcome.deciding_s = deciding_s
    return outcome
