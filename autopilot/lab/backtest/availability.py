"""The exact model of availability suites: one job on one market that is on or off, a tick at a time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from autopilot.lab.backtest.choices import Choice
from autopilot.lab.backtest.outcome import Outcome
from autopilot.lab.backtest.perturbation import EXACT, Perturbation, refused_on_demand
from autopilot.lab.backtest.suite import (
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
    tick_s, work_s, restart_s = config.tick_s, run.work_s, run.restart_s
    tick_h = tick_s / HOUR_S
    rate_of = {SPOT: config.spot_rate, ON_DEMAND: config.on_demand_rate}
    ticks_to_deadline = ticks_until(run.deadline_s, tick_s)
    window = trace[run.start : run.start + run.ticks]
    shown = perturbation.delayed(trace, run.start, run.ticks)
    refused = refused_on_demand(perturbation, run.block, run.ticks)
    enough_s = work_s - ROUNDING_S
    outcome = Outcome()
    view = AvailabilityView()
    done_s = pending_s = deciding_s = spent = 0.0
    running = NONE
    tick = 0
    for tick in range(run.ticks):
        if running is SPOT and not window[tick]:
            running = NONE
            outcome.pauses += 1
        view.tick = tick
        view.ticks_left = ticks_to_deadline - tick
        view.work_left_s = max(job.work_s - done_s, 0.0)
        view.running = running
        view.pending_s = pending_s
        view.spot_available = shown[tick] == 1
        view.spent = spent
        began = perf_counter()
        choice = choose(view)
        deciding_s += perf_counter() - began
        if observe is not None:
            observe(view, choice)
        if choice is NONE:
            running = NONE
            continue
        if choice is PARK:
            outcome.status = "parked" if tick else "refused"
            break
        if choice is SPOT:
            if not shown[tick]:
                raise ValueError("spot was chosen where none is available")
            obtained = window[tick] == 1
        elif choice is ON_DEMAND:
            obtained = running is ON_DEMAND or tick not in refused
        else:
            raise ValueError(f"not an answer on an availability suite: {choice}")
        if not obtained:
            # A refused move leaves what ran where it was.
            choice = running
            if choice is NONE:
                continue
        if choice is not running:
            if running is not NONE:
                outcome.migrations += 1
            pending_s = restart_s
        running = choice
        served_s = pending_s if pending_s < tick_s else tick_s
        pending_s -= served_s
        done_s += tick_s - served_s
        paid = rate_of[choice] * tick_h
        spent += paid
        lost = paid * served_s / tick_s
        outcome.lost += lost
        if choice is SPOT:
            outcome.spot += paid - lost
        else:
            outcome.on_demand += paid - lost
        if done_s >= enough_s:
            outcome.status = "finished" if tick < ticks_to_deadline else "late"
            break
    outcome.decisions = tick + 1
    outcome.deciding_s = deciding_s
    return outcome
