"""The exact model of bid suites: one job, a few machines with floors, on-demand always there, a tick at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter

from autopilot.domain.readings import Recognised
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import EXACT, Perturbation, refused_on_demand
from autopilot_lab.backtest.suite import HOUR_S, ROUNDING_S, BidConfig, BidJob, BidRun, Listing, ticks_until

NONE, SPOT, ON_DEMAND, KEEP, PARK = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.KEEP, Choice.PARK

TICKS_AFTER_DEADLINE = 2
"""A run that has not finished by then is left: it is late in any case."""


class BidView:
    """What a policy sees in a tick. One object a run, overwritten each tick: keep numbers, not the view."""

    __slots__ = (
        "_first", "_floors", "_hosts", "_ran", "_seen", "_truth", "bid", "done_s", "floors", "is_set_up", "left_out",
        "machine", "now_s", "pending_s", "progress", "recognised", "running", "safe_left_s", "saved_s", "spent",
        "taken", "tick", "ticks_left", "work_left_s",
    )  # fmt: skip

    tick: int
    now_s: float
    """From the run's start: the beginning of the tick, or later in it where it is looked at again."""
    ticks_left: int
    """Whole ticks until the deadline, this one included; negative after it."""
    work_left_s: float
    """By the estimate that the policy has; never below 0, and infinite without one."""
    safe_left_s: float
    """Work left if the run were paused now: counted from the last checkpoint."""
    done_s: float
    """Work done; more than the estimate where that was too low."""
    saved_s: float
    """The same up to the last checkpoint."""
    running: Choice
    """NONE (nothing is held), KEEP (a machine is held, paused), SPOT or ON_DEMAND."""
    machine: int | None
    """The spot machine that is held, running or paused."""
    bid: float
    """The last bid on it; 0 if none is held."""
    is_set_up: bool
    """Whether the held machine needs but a resume to run."""
    pending_s: float
    """Set-up or resume time still to be served by what runs."""
    floors: Sequence[float]
    """The newest floor of each machine, $/h; infinite where none is shown."""
    spent: float
    progress: float | None
    """Share of the work that is done, as the job reports it; None if it reports none."""
    recognised: Recognised | None
    """What trainers print, as it is recognised in the output of what runs; None: nothing."""
    taken: frozenset[int]
    """Machines that others have whom we know of: they cannot be had."""
    left_out: frozenset[int]
    """Machines that are left alone for some time, like one that refused a create: they are not shown."""

    def __init__(
        self, floors: Sequence[array[float]], listing: Listing | None = None, recorded_from: int | None = None
    ) -> None:
        """``recorded_from``: the first tick that is on record, and what ran for us is left out of it; None: all is."""
        self._truth = floors
        self._first = recorded_from or 0
        self._ran: list[tuple[int, int]] | None = None if recorded_from is None else []
        self._floors = floors if listing is None else listing.shown
        self._hosts = None if listing is None else listing.hosts
        self._seen = 0
        self.taken = self.left_out = frozenset()
        self.recognised = None

    @property
    def shows_running(self) -> bool:
        """Whether the floor of the machine that runs is shown."""
        return self._hosts is None

    @property
    def ticks_seen(self) -> int:
        """How many floors of each machine are known, those before the run's start included."""
        return self._seen - self._first

    def history(self, machine: int, ticks: int) -> array[float]:
        """The newest ``ticks`` floors of a machine, oldest first; fewer where fewer are known."""
        first = max(self._seen - ticks, self._first)
        floors = self._floors[machine][first : self._seen]
        if self._ran and self._hosts is not None:
            for host, tick in self._ran:
                if host == self._hosts[machine] and tick >= first:
                    floors[tick - first] = inf
        return floors

    def show(self, seen: int, held: int | None = None, *, runs: bool = False) -> None:
        """Reveals the floors up to that many, given the machine that is held; for the model, not for policies."""
        self._seen = seen
        newest = max(seen - 1, 0)
        self.floors = shown = [floors[newest] for floors in self._floors]
        for machine in self.taken | self.left_out:
            shown[machine] = inf
        if self._hosts is not None and held is not None:
            if not runs:
                shown[held] = self._truth[held][newest]
                return
            if self._ran is not None:
                self._ran.append((self._hosts[held], newest))
            for machine, host in enumerate(self._hosts):
                if host == self._hosts[held]:
                    shown[machine] = inf

    def show_outbid(self, held: int) -> None:
        """In the midst of the tick: the floor that the held machine has just lost to."""
        self.floors = [*self.floors]
        self.floors[held] = self._truth[held][self._seen]


BidChooser = Callable[[BidView], Choice | Spot]
BeginRun = Callable[[BidConfig, BidRun, Sequence["array[float]"], Outcome], "BidRunState"]


def play_bids(
    config: BidConfig,
    run: BidRun,
    floors: Sequence[array[float]],
    choose: BidChooser,
    job: BidJob,
    perturbation: Perturbation = EXACT,
    observe: Callable[[BidView, Choice | Spot], None] | None = None,
    listing: Listing | None = None,
    begin: BeginRun | None = None,
    recorded_from: int | None = None,
) -> Outcome:
    """One run under one policy. ``floors`` are the whole traces; only what the model and ``listing`` allow is shown.

    ``observe`` receives each tick's view and answer. ``begin``: what carries answers out, where not the exact model.
    ``recorded_from``: the first tick on record, see ``BidView``.

    Raises ValueError for an answer that the model does not know.
    """
    ticks_to_deadline = ticks_until(run.deadline_s, config.tick_s)
    ticks = min(ticks_to_deadline + TICKS_AFTER_DEADLINE, len(floors[0]) - 1 - run.start)
    refused = refused_on_demand(perturbation, run.block, ticks)
    outcome = Outcome()
    state = (begin or BidRunState)(config, run, floors, outcome)
    played = BidPlay(config, run, state, BidView(floors, listing, recorded_from), choose, job, perturbation.lag_ticks)
    for tick in range(ticks):
        if played.step(tick, tick in refused, observe):
            break
    outcome.done_s = state.done_s
    return outcome


class BidPlay:
    """One run under one policy, tick by tick; what becomes of it is in the outcome of ``state``."""

    def __init__(
        self,
        config: BidConfig,
        run: BidRun,
        state: BidRunState,
        view: BidView,
        choose: BidChooser,
        job: BidJob,
        lag_ticks: int = 0,
    ) -> None:
        self._config, self._run, self._choose, self._job, self._lag_ticks = config, run, choose, job, lag_ticks
        self.state, self.view = state, view
        self._ticks_to_deadline = ticks_until(run.deadline_s, config.tick_s)

    def step(
        self, tick: int, is_refused: bool = False, observe: Callable[[BidView, Choice | Spot], None] | None = None
    ) -> bool:
        """Whether the run is over by the end of that tick. ``is_refused``: no on-demand machine can be had in it."""
        state, view, outcome, at = self.state, self.view, self.state.outcome, self._run.start + tick
        outcome.decisions += 1
        view.left_out = state.leave_out(at)
        # Who pays what all pay sees the floor of the machine that runs: it is charged that.
        is_unseen = state.running is SPOT and self._run.pays == "bid"
        view.show(max(at + 1 - self._lag_ticks, 1), state.machine, runs=is_unseen)
        late_s = state.first_look_s if tick == 0 else 0.0
        view.tick, view.now_s = tick, tick * self._config.tick_s + late_s
        view.ticks_left = self._ticks_to_deadline - tick
        state.tell(view, self._job)
        began = perf_counter()
        choice = state.stay() if state.is_moving else self._choose(view)
        outcome.deciding_s += perf_counter() - began
        if observe is not None:
            observe(view, choice)
        if choice is PARK:
            outcome.status = "parked" if tick else "refused"
            return True
        if choice is ON_DEMAND and state.running is not ON_DEMAND and is_refused:
            choice = state.stay()
        before = state.take(choice, at, late_s)
        before = state.answer_within_tick(before, view, self._job, self._choose, at)
        if state.running is NONE:
            return False
        state.go_on(before)
        if state.is_done:
            outcome.status = "finished" if tick < self._ticks_to_deadline else "late"
        return state.is_done


class BidRunState:
    """State of one run between two ticks: what it holds, what it has done and paid. Times in seconds, $/h."""

    __slots__ = (
        "_bills_at_bid",
        "_config",
        "_enough_s",
        "_floors",
        "_rebid_stops",
        "_storage",
        "_tick_h",
        "_work_s",
        "bid",
        "billed_rate",
        "done_s",
        "is_set_up",
        "machine",
        "outcome",
        "pending_s",
        "running",
        "safe_s",
    )

    def __init__(self, config: BidConfig, run: BidRun, floors: Sequence[array[float]], outcome: Outcome) -> None:
        self._config, self._floors, self.outcome = config, floors, outcome
        self._bills_at_bid, self._rebid_stops = run.pays == "bid", run.pays == "cap"
        self._tick_h = config.tick_s / HOUR_S
        self._storage = config.storage_rate * self._tick_h
        self._work_s, self._enough_s = run.work_s, run.work_s - ROUNDING_S
        self.running: Choice = NONE
        self.machine: int | None = None
        self.bid = self.billed_rate = 0.0
        self.is_set_up = False
        self.done_s = self.safe_s = self.pending_s = 0.0

    @property
    def is_done(self) -> bool:
        return self.done_s >= self._enough_s

    @property
    def is_moving(self) -> bool:
        """Whether a planned move is under way. Here it is done at once."""
        return False

    def tell(self, view: BidView, job: BidJob) -> None:
        view.work_left_s = max(job.work_s - self.done_s, 0.0)
        view.safe_left_s = max(job.work_s - self.safe_s, 0.0)
        view.running, view.machine, view.bid, view.is_set_up = self.running, self.machine, self.bid, self.is_set_up
        view.pending_s = self.pending_s
        view.done_s, view.saved_s = self.done_s, self.safe_s
        view.spent = self.outcome.cost
        view.progress = self.done_s / self._work_s if job.reports_progress else None

    @property
    def first_look_s(self) -> float:
        """How late in the first tick the policy is asked, and its answer carried out."""
        return 0.0

    def answer_within_tick(self, before: Choice, view: BidView, job: BidJob, choose: BidChooser, at: int) -> Choice:
        """What the policy sees and answers in the midst of the tick, once the tick's answer has been carried out.

        Takes and returns what ran before on the machine that is held. Here nothing is seen before the next tick.
        """
        return before

    def leave_out(self, _at: int) -> frozenset[int]:
        """Machines that are left alone at that tick of the traces. Here nothing is refused."""
        return frozenset()

    def stay(self) -> Choice | Spot:
        """A refused move leaves what ran where it was."""
        return NONE if self.machine is None else Spot(self.machine, self.bid)

    def take(self, choice: Choice | Spot, at: int, late_s: float = 0.0) -> Choice:
        """Carry the answer out at that tick of the traces, so late in it.

        Returns what ran before it on the machine that is held now.

        Raises ValueError for an answer that the model does not know.
        """
        before = self.running
        if isinstance(choice, Spot):
            return self._bid(choice, at, late_s)
        if choice is ON_DEMAND:
            if before is not ON_DEMAND:
                self.outcome.migrations += before is not NONE
                self.pending_s = self._start_s(at, late_s)
            self.billed_rate = self._config.on_demand_price
            self.running, self.machine, self.bid, self.is_set_up = ON_DEMAND, None, 0.0, False
        elif choice is KEEP and self.machine is not None:
            self.running = KEEP
        elif choice is NONE:
            self.running, self.machine, self.bid, self.is_set_up = NONE, None, 0.0, False
        else:
            raise ValueError(f"not an answer on a bid suite now: {choice}")
        return before

    def _start_s(self, at: int, late_s: float) -> float:
        """How long a machine takes to start that is rented so late in that tick of the traces; from its beginning."""
        return late_s + self._config.migrate_s

    def _resume_s(self, late_s: float) -> float:
        """How long a paused machine takes to run again."""
        return late_s + self._config.resume_s

    def _bid(self, choice: Spot, at: int, late_s: float) -> Choice:
        before = self.running
        if choice.machine != self.machine:
            self.outcome.migrations += before is not NONE
            self.machine, before, self.is_set_up = choice.machine, NONE, False
        elif self._rebid_stops and before is SPOT and choice.bid != self.bid:
            before = KEEP  # a planned stop: what was done is saved
        self.bid = choice.bid
        floors = self._floors[choice.machine]
        if choice.bid >= floors[at + 1]:
            if before is not SPOT:
                self.pending_s = self._resume_s(late_s) if self.is_set_up else self._start_s(at, late_s)
            self.running, self.is_set_up = SPOT, True
            self.billed_rate = choice.bid if self._bills_at_bid else floors[at + 1]
        else:
            # A machine that was won by today's floor is set up even where it is lost before it runs.
            self.running, self.is_set_up = KEEP, self.is_set_up or choice.bid >= floors[at]
        return before

    def go_on(self, before: Choice) -> None:
        """Bill a tick of what is held, and do a tick of work where it runs."""
        outcome = self.outcome
        outcome.storage += self._storage
        if self.running is KEEP:
            if before is SPOT:
                self._pause()
            return
        tick_s = self._config.tick_s
        served_s = min(self.pending_s, tick_s)
        self.pending_s -= served_s
        self.done_s += (tick_s - served_s) * self._config.speed(self.machine)
        self.safe_s = self.done_s // self._config.checkpoint_s * self._config.checkpoint_s
        outcome.lost += self._billed_of_start_s(served_s) * self.billed_rate / HOUR_S
        worked = self.billed_rate * (tick_s - served_s) / HOUR_S
        if self.running is SPOT:
            outcome.spot += worked
        else:
            outcome.on_demand += worked

    def _billed_of_start_s(self, served_s: float) -> float:
        """So many of these seconds of set-up or resume time are billed."""
        return served_s

    def _pause(self) -> None:
        """A pause loses the work since the last checkpoint; a planned move saves it first."""
        outcome = self.outcome
        outcome.pauses += 1
        thrown_back = self.billed_rate * (self.done_s - self.safe_s) / self._config.speed(self.machine) / HOUR_S
        outcome.spot -= thrown_back
        outcome.lost += thrown_back
        self.done_s = self.safe_s
