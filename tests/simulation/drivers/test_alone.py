"""Without other bidders, for any number of our jobs, each price paid is within one markup of the market's least."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot.domain.array import ArraySpec
from autopilot.domain.job import SpotPolicy
from tests.simulation.ground.scenario import Scenario, Submit, a_spec
from tests.simulation.ground.stories import LIMITS, D
from tests.simulation.runs.run import run
from tests.variants import first_of

MARKETS = ("vastai", "mithril", "runpod", "nebius")
LENGTH_S = 7200.0


@st.composite
def crowds(draw: Any, market: str) -> Scenario:
    """Jobs that come when they like and would pay many times the least, for fewer machines than they want."""
    wishes = []
    for number in range(draw(st.integers(1, 4))):
        tasks = draw(st.sampled_from((None, 3)))
        spec = a_spec(
            timedelta(minutes=draw(st.integers(5, 25))),
            spot_policy=SpotPolicy.SPOT,
            max_bid=D(draw(st.sampled_from(("2", "20")))),
            budget=draw(st.sampled_from((None, D(20)))),
            array=None if tasks is None else ArraySpec(tasks),
        )
        wishes.append((float(draw(st.integers(30, 1200))), Submit(f"01JOB00000000000000000000{number}", spec)))
    rooms = ("one host", "one host of two", "one host of eight")
    acts = () if market == "nebius" else ((0.0, draw(st.sampled_from(rooms))),)
    return Scenario(
        tuple(wishes),
        LIMITS,
        tick_s=20.0,
        length_s=LENGTH_S,
        goes_on_s=0.0,
        idle_s=LENGTH_S,
        acts=acts,
        script={"E12": range(20)},
        markets=(market,),
        is_alone=True,
    )


def check(market: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(crowds(market), st.integers(1, 1000))
    def stays_at_its_least(scenario: Scenario, seed: int) -> None:
        assert run(seed, scenario).violations == ()

    stays_at_its_least()


@pytest.mark.slow
@pytest.mark.parametrize("market", first_of(MARKETS, 2))
def test_we_are_no_competition_for_ourselves(market: str) -> None:
    check(market, 2)


@pytest.mark.slow
@pytest.mark.parametrize("market", MARKETS)
def test_we_never_are(market: str) -> None:
    check(market, 60)


def test_a_lone_bidder_that_bids_against_itself_is_found() -> None:
    """The same look finds a daemon that takes its own bids for others'."""
    two = tuple(
        (40.0 + number, Submit(f"01JOB00000000000000000000{number}", a_spec(timedelta(minutes=20), max_bid=D(4))))
        for number in range(2)
    )
    scenario = Scenario(two, LIMITS, tick_s=20.0, length_s=2400.0, acts=((0.0, "one host"),), script={}, is_alone=True)
    found = run(7, replace(scenario, markets=("mithril",)), bug="own_bids_compete", stop_at_first=True)
    assert found.failed == {"S37"}
