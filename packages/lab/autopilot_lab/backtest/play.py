"""One run of a suite under one policy, or at its optimum: where the kinds of suite part ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from autopilot.domain.params import Deadline
from autopilot_lab.backtest.availability import play_availability
from autopilot_lab.backtest.bids import play_bids
from autopilot_lab.backtest.live import Live, recorded_since
from autopilot_lab.backtest.live_run import LiveRunState
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import EXACT, Perturbation
from autopilot_lab.backtest.suite import (
    AvailabilityJob,
    AvailabilityRun,
    BidJob,
    BidRun,
    BidSuite,
    Config,
    Job,
    Run,
    Suite,
    on_demand_cost,
)

Start = Callable[[Config, Job], Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all runs of a backtest are put under."""

    budget_share: float | None = None
    """Each run's budget as a share of what it costs on demand; none: no budget."""
    perturbation: Perturbation = EXACT
    live: Live | None = None
    """The daemon's day, on suites of bids; None: the bare suite. Its floors are those of ``as_searched``."""


def budget_of(suite: Suite, run: Run, conditions: Conditions) -> float | None:
    share = conditions.budget_share
    return None if share is None else share * on_demand_cost(suite.config, run)


def estimated_job(suite: Suite, run: Run, conditions: Conditions) -> Job:
    """What the policy sees of a run under these conditions."""
    perturbed, budget = conditions.perturbation, budget_of(suite, run, conditions)
    live = conditions.live
    if isinstance(run, BidRun) and live is not None:
        work_s = live.estimated_work_s(run.work_s, run.block) if live.has_estimate else inf
        told = (budget, Deadline().estimate_error, perturbed.lag_ticks, perturbed.vanish)
        return BidJob(
            work_s,
            run.deadline_s,
            run.pays,
            *told,
            is_live=True,
            reports_progress=live.reports_progress,
        )
    work_s = perturbed.estimated_work_s(run.work_s, run.block)
    known = (budget, perturbed.estimate_error, perturbed.lag_ticks, perturbed.vanish)
    if isinstance(run, BidRun):
        return BidJob(work_s, run.deadline_s, run.pays, *known)
    return AvailabilityJob(work_s, run.deadline_s, run.restart_s, *known)


def play(
    suite: Suite,
    run: Run,
    start: Start,
    conditions: Conditions,
    observe: Callable[[Any, Any], None] | None = None,
) -> Outcome:
    """The outcome of one run. ``observe`` receives each tick's view and answer."""
    job = estimated_job(suite, run, conditions)
    choose = start(suite.config, job)
    if isinstance(suite, BidSuite):
        assert isinstance(run, BidRun)
        assert isinstance(job, BidJob)
        begin, recorded_from = None, None
        if conditions.live is not None:
            begin = partial(LiveRunState, live=conditions.live)
            recorded_from = recorded_since(run.start, conditions.live, suite.config.tick_s)
        return play_bids(
            suite.config,
            run,
            suite.floors,
            choose,
            job,
            conditions.perturbation,
            observe,
            suite.listing,
            begin,
            recorded_from,
        )
    assert isinstance(run, AvailabilityRun)
    assert isinstance(job, AvailabilityJob)
    trace = suite.traces[run.trace]
    return play_availability(suite.config, run, trace, choose, job, conditions.perturbation, observe)


def optimal_cost(suite: Suite, run: Run) -> float:
    """The least dollars of a run, knowing the future."""
    from autopilot_lab.backtest.optimal import optimal_availability, optimal_bids

    if isinstance(suite, BidSuite):
        assert isinstance(run, BidRun)
        return optimal_bids(suite.config, run, suite.floors)
    assert isinstance(run, AvailabilityRun)
    return optimal_availability(suite.config, run, suite.traces[run.trace])
