"""A daemon that sleeps for hours, or for good, while its machines work on under permits of hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation.ground.scenario import Scenario, Submit, a_spec
from tests.simulation.ground.stories import JOB, LIMITS, D
from tests.simulation.runs.run import run

HOUR_S = 3600.0


def asleep(act: str, hours: int, **spec: object) -> Scenario:
    """It falls asleep twenty minutes after the job is submitted; ``hours``: how long permits may be."""
    job = a_spec(timedelta(hours=5), checkpoint_interval=timedelta(minutes=10), **spec)
    return Scenario(
        ((40.0, Submit(JOB, job)),),
        LIMITS,
        tick_s=20.0,
        length_s=8 * HOUR_S,
        goes_on_s=0.0,
        idle_s=8 * HOUR_S,
        acts=((1240.0, act),),
        script={},
        permit_s=round(hours * HOUR_S),
    )


@pytest.mark.slow
@pytest.mark.parametrize("market", ["vastai", "runpod"])
@pytest.mark.parametrize("hours", [2, 6], ids=["beyond-the-permit", "within-the-permit"])
def test_three_hours_of_sleep_break_no_rule(market: str, hours: int) -> None:
    told = run(7, replace(asleep("sleeps for three hours", hours), markets=(market,)))
    assert told.violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, D("0.80")])
def test_a_daemon_that_dies_for_good_leaves_nothing_beyond_the_permit(budget: object) -> None:
    assert run(7, asleep("dies for good", 4, budget=budget)).violations == ()
