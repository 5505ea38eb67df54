"""The exact model of availability suites: one job on one market that is on or off, a tick at a time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import EXACT, Perturbation, refused_on_demand
from autopilot_lab.backtest.suite import (
    HOUR_S,
    ROUNDING_S,
    AvailabilityConfig,
    AvailabilityJob,
    AvailabilityRun,
    ticks_until,
)

NONE, SPOT, ON_DEMAND, PARK = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND, Choice.PARK


class AvailabilityView:
    """What a policy sees in a tick. One object a run, overwritten each tick: keep numbers, not the view."""

    __slots__ = ("pending_s", "running", "spent", "spot_available", "tick", "ticks_left", "work_left_s")

    tick: int
    ticks_left: int
    """Whole ticks until the deadline, this one included; negative after it."""
    work_left_s: float
    """By the estimate that the policy has; never below 0."""
    running: Choice
    """What ran in the last tick and was not preempted: NONE, SPOT or ON_DEMAND."""
    pending_s: float
    """Restart time still to be served by what runs."""
    spot_available: bool
    spent: float


AvailabilityChooser = Callable[[AvailabilityView], Choice]


def play_availability(
    config: AvailabilityConfig,
    run: AvailabilityRun,
    trace: bytes,
    choose: AvailabilityChooser,
    job: AvailabilityJob,
    perturbation: Perturbation = EXACT,
    observe: Callable[[AvailabilityView, Choice], None] | None = None,
) -> Outcome:
    """One run under one policy. ``trace`` is the whole trace; only what the model allows is shown.

    ``observe`` receives each tick's view and answer. Raises ValueError for an answer that the model does not know.
    """
    ticks_to_deadline = ticks_until(run.deadline_s, config.tick_s)
    window = trace[run.start : run.start + run.ticks]
    shown = perturbation.delay(trace, run.start, run.ticks)
    refused = refused_on_demand(perturbation, run.block, run.ticks)
    outcome = Outcome()
    view = AvailabilityView()
    state = _Run(config, run, outcome)
    deciding_s = 0.0
    tick = 0
    for tick in range(run.ticks):
        if state.running is SPOT and not window[tick]:
            state.running = NONE
            outcome.pauses += 1
        view.tick = tick
        view.ticks_left = ticks_to_deadline - tick
        view.spot_available = shown[tick] == 1
        state.tell(view, job)
        began = perf_counter()
        choice = choose(view)
        deciding_s += perf_counter() - began
        if observe is not None:
            observe(view, choice)
        if choice is PARK:
            outcome.status = "parked" if tick else "refused"
            break
        if choice is SPOT and not shown[tick]:
            raise ValueError("spot was chosen where none is available")
        state.take(choice, has_spot=window[tick] == 1, has_on_demand=tick not in refused)
        if state.running is NONE:
            continue
        state.go_on()
        if state.is_done:
            outcome.status = "finished" if tick < ticks_to_deadline else "late"
            break
    outcome.decisions = tick + 1
    outcome.deciding_s = deciding_s
    return outcome


class _Run:
    """State of one run between two ticks: what runs, what it has done and paid. Times in seconds, $/h."""

    __slots__ = ("_enough_s", "_outcome", "_rates", "_restart_s", "_tick_s", "done_s", "pending_s", "running", "spent")

    def __init__(self, config: AvailabilityConfig, run: AvailabilityRun, outcome: Outcome) -> None:
        self._outcome = outcome
        self._rates = {SPOT: config.spot_rate, ON_DEMAND: config.on_demand_price}
        self._tick_s, self._restart_s = config.tick_s, run.restart_s
        self._enough_s = run.work_s - ROUNDING_S
        self.running: Choice = NONE
        self.done_s = self.pending_s = self.spent = 0.0

    @property
    def is_done(self) -> bool:
        return self.done_s >= self._enough_s

    def tell(self, view: AvailabilityView, job: AvailabilityJob) -> None:
        view.work_left_s = max(job.work_s - self.done_s, 0.0)
        view.running, view.pending_s, view.spent = self.running, self.pending_s, self.spent

    def take(self, choice: Choice, *, has_spot: bool, has_on_demand: bool) -> None:
        """Carry the answer out; a refused move leaves what ran where it was.

        Raises ValueError for an answer that the model does not know.
        """
        if choice is NONE:
            self.running = NONE
            return
        if choice not in self._rates:
            raise ValueError(f"not an answer on an availability suite: {choice}")
        is_obtained = has_spot if choice is SPOT else has_on_demand or self.running is ON_DEMAND
        if not is_obtained or choice is self.running:
            return
        self._outcome.migrations += self.running is not NONE
        self.pending_s = self._restart_s
        self.running = choice

    def go_on(self) -> None:
        """Bill a tick of what runs, and do what work fits beside the restart."""
        served_s = min(self.pending_s, self._tick_s)
        self.pending_s -= served_s
        self.done_s += self._tick_s - served_s
        paid = self._rates[self.running] * (self._tick_s / HOUR_S)
        self.spent += paid
        lost = paid * served_s / self._tick_s
        self._outcome.lost += lost
        if self.running is SPOT:
            self._outcome.spot += paid - lost
        else:
            self._outcome.on_demand += paid - lost
