"""Published and folk rules for one market that is on or off."""

from __future__ import annotations

from collections.abc import Callable

from autopilot_lab.backtest.availability import AvailabilityChooser, AvailabilityView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.suite import AvailabilityConfig, AvailabilityJob, Params, whole_ticks

NONE, SPOT, ON_DEMAND = Choice.NONE, Choice.SPOT, Choice.ON_DEMAND

_Rule = Callable[[AvailabilityView], Choice]


def on_demand(_config: AvailabilityConfig, _job: AvailabilityJob, _params: Params) -> AvailabilityChooser:
    """Always on demand."""
    return lambda _view: ON_DEMAND


def greedy(config: AvailabilityConfig, job: AvailabilityJob, _params: Params) -> AvailabilityChooser:
    """Spot whenever it can be had, on demand only when the deadline forces it."""
    return _guard(config, job, _spot_or_none)


def uniform_progress(config: AvailabilityConfig, job: AvailabilityJob, _params: Params) -> AvailabilityChooser:
    """Keeps the work done on the straight line from nothing at the start to all of it at the deadline.

    Wu et al., Can't Be Late, NSDI 2024.
    """
    work_s, restart_s, tick_s = job.work_s, job.restart_s, config.tick_s
    pace = work_s / job.deadline_s

    def rule(view: AvailabilityView) -> Choice:
        now_s = view.tick * tick_s
        done_s = work_s - view.work_left_s
        if view.running is ON_DEMAND:
            # Back to spot only when ahead by what the round trip costs.
            return SPOT if view.spot_available and done_s > (now_s + 2 * restart_s) * pace else ON_DEMAND
        if view.spot_available:
            return SPOT
        return ON_DEMAND if done_s < now_s * pace else NONE

    return _guard(config, job, rule)


def _spot_or_none(view: AvailabilityView) -> Choice:
    return SPOT if view.spot_available else NONE


def _guard(config: AvailabilityConfig, job: AvailabilityJob, rule: _Rule) -> AvailabilityChooser:
    """The published deadline net around a rule: on demand in time for the work left and the restarts."""
    tick_s, restart_s = config.tick_s, job.restart_s

    def choose(view: AvailabilityView) -> Choice:
        choice = rule(view)
        left_s, running = view.work_left_s, view.running
        if running is not SPOT and whole_ticks(left_s + 2 * restart_s, tick_s) >= view.ticks_left:
            choice = ON_DEMAND
        if whole_ticks(left_s + restart_s, tick_s) >= view.ticks_left:
            if running is SPOT and not view.pending_s:
                return SPOT
            if not (restart_s == 0 and view.spot_available):
                return ON_DEMAND
            return SPOT
        return choice

    return choose
