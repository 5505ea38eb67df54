"""The optimum is what the best of all possible answers costs, and no policy is cheaper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot_lab.backtest.availability import AvailabilityView, play_availability
from autopilot_lab.backtest.bids import BidView, play_bids
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.play import Conditions, estimated_job, optimal_cost, play
from autopilot_lab.backtest.policies import starter
from autopilot_lab.backtest.suite import AvailabilityJob, AvailabilityRun, AvailabilitySuite, BidJob, BidRun, BidSuite
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import (
    availability_body,
    baselines,
    bid_body,
    random_availability_body,
    random_bid_body,
)

T = TypeVar("T")
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def follow(script: Sequence[T]) -> Callable[[AvailabilityView | BidView], T]:
    return lambda view: script[view.tick]


def cheapest_of_all(suite: AvailabilitySuite | BidSuite) -> float:
    """By trying every sequence of answers."""
    run, job = suite.runs[0], estimated_job(suite, suite.runs[0], Conditions())
    ticks = int(run.deadline_s // suite.config.tick_s)
    costs = []
    if isinstance(suite, AvailabilitySuite):
        assert isinstance(run, AvailabilityRun)
        assert isinstance(job, AvailabilityJob)
        trace = suite.traces[0]
        options = [
            (Choice.NONE, Choice.ON_DEMAND, *([Choice.SPOT] if trace[run.start + tick] else []))
            for tick in range(ticks)
        ]
        for answers in product(*options):
            script = [*answers, *[Choice.PARK] * 4]
            outcome = play_availability(suite.config, run, trace, follow(script), job)
            if outcome.status == "finished":
                costs.append(outcome.cost)
        return min(costs)
    assert isinstance(run, BidRun)
    assert isinstance(job, BidJob)
    bids: list[tuple[Choice | Spot, ...]] = [
        (
            Choice.NONE,
            Choice.KEEP,
            Choice.ON_DEMAND,
            *(Spot(machine, row[run.start + tick + 1]) for machine, row in enumerate(suite.floors)),
        )
        for tick in range(ticks)
    ]
    for plan in product(*bids):
        script_of_bids: list[Choice | Spot] = [*plan, *[Choice.PARK] * 4]
        try:
            outcome = play_bids(suite.config, run, suite.floors, follow(script_of_bids), job)
        except ValueError:
            continue  # KEEP where nothing is held.
        if outcome.status == "finished":
            costs.append(outcome.cost)
    return min(costs)


@FEW
@given(
    states=st.text("01", min_size=10, max_size=10),
    restart_h=st.sampled_from([0, 0.5, 1.5]),
    spot_rate=st.sampled_from([0.5, 1.0, 2.9]),
    work_h=st.sampled_from([2, 3.25]),
)
def test_availability_against_every_sequence(states: str, restart_h: float, spot_rate: float, work_h: float) -> None:
    suite = suite_from(availability_body(states, spot_rate=spot_rate, runs=[[0, 1, 8, work_h, 7, restart_h]]))
    assert isinstance(suite, AvailabilitySuite)
    assert optimal_cost(suite, suite.runs[0]) == pytest.approx(cheapest_of_all(suite))


@pytest.mark.slow
@settings(FEW, max_examples=12)
@given(
    floors=st.lists(st.sampled_from([0.3, 0.8, 1.5, 4.0]), min_size=16, max_size=16),
    storage_rate=st.sampled_from([0.0, 0.1, 0.5]),
    checkpoint_s=st.sampled_from([1800, 3600]),
)
def test_bids_against_every_sequence(floors: list[float], storage_rate: float, checkpoint_s: int) -> None:
    rows = {"a": floors[:8], "b": floors[8:]}
    suite = suite_from(
        bid_body(rows, storage_rate=storage_rate, checkpoint_s=checkpoint_s, runs=[[1, 1, 2.5, "clearing"]])
    )
    assert isinstance(suite, BidSuite)
    assert optimal_cost(suite, suite.runs[0]) == pytest.approx(cheapest_of_all(suite))


@pytest.mark.parametrize("body", [random_availability_body(1), random_availability_body(2), random_bid_body(1)])
def test_no_policy_is_cheaper_and_none_of_these_is_late(body: dict[str, object]) -> None:
    suite = suite_from(body)
    for run in suite.runs:
        least = optimal_cost(suite, run)
        for policy in baselines(suite.config.kind):
            outcome = play(suite, run, starter(policy, suite.config.kind, {}), Conditions())
            assert outcome.cost >= least - 1e-9, policy
