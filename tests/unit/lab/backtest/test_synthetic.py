"""Synthetic markets have the traits that they are made for, and listings hide what they must."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import inf, isinf
from statistics import median

import pytest

from autopilot_lab.backtest.bids import BidChooser, BidView, play_bids
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.crowds import ON_DEMAND_SPREAD
from autopilot_lab.backtest.map_live import start_on_bids
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.suite import (
    AvailabilityConfig,
    AvailabilityJob,
    BidConfig,
    BidJob,
    BidRun,
    BidSuite,
    Listing,
)
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite
from autopilot_lab.backtest.tasks import DAY


@pytest.fixture(scope="module")
def vast() -> BidSuite:
    return synthetic_suite("vast", 1, starts=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vast", "three-machines", "calm", "stormy", "trending"])
def test_a_seed_makes_one_suite(kind: Kind) -> None:
    one, same, other = (synthetic_suite(kind, seed, starts=1) for seed in (3, 3, 4))
    assert one == same
    assert one.floors != other.floors
    assert one.runs[0].block != other.runs[0].block, "or both have the same estimate, and machines that load as long"


def test_runs_have_every_deadline_after_a_recorded_history(vast: BidSuite) -> None:
    assert sorted({run.deadline_s / run.work_s for run in vast.runs}) == pytest.approx([1.1, 1.25, 1.5, 2.0, 3.0])
    assert min(run.start for run in vast.runs) >= 2000
    assert all(run.start + run.deadline_s / 300 < len(vast.floors[0]) for run in vast.runs)


@pytest.mark.slow
def test_the_median_machine_is_seldom_seen() -> None:
    shares = []
    for seed in range(4):
        listing = synthetic_suite("vast", seed, starts=1).listing
        assert listing is not None
        shares += [sum(not isinf(floor) for floor in row) / len(row) for row in listing.shown]
    assert 0.12 < median(shares) < 0.28
    assert min(shares) < 0.08


def test_no_bid_wins_a_machine_that_is_rented_on_demand_or_gone(vast: BidSuite) -> None:
    gone = [sum(map(isinf, row)) / len(row) for row in vast.floors]
    assert 0.2 < median(gone) < 0.8


@pytest.mark.slow
def test_on_demand_costs_some_more_than_a_usual_floor() -> None:
    usual = []
    for seed in range(6):
        suite = synthetic_suite("vast", seed, starts=1)
        usual += [min(row) for row in suite.floors]
    assert suite.config.on_demand_price / median(usual) == pytest.approx(ON_DEMAND_SPREAD, rel=0.25)


def test_some_of_what_is_shown_is_late(vast: BidSuite) -> None:
    assert vast.listing is not None
    late = seen = 0
    for shown, true in zip(vast.listing.shown, vast.floors, strict=True):
        for read, floor in zip(shown, true, strict=True):
            seen += not isinf(read)
            late += not isinf(read) and read != floor
    assert 0.001 < late / seen < 0.1


CONFIG = BidConfig(300.0, 1.0, 0.01, 0.0, 0.0, 300.0, ("a", "b", "c"))


def views(choices: list[Choice | Spot]) -> list[tuple[float, ...]]:
    """What is shown in each tick while those answers are given; a and b share a host, c is never listed."""
    ticks = len(choices) + 3
    floors = tuple(array("d", [floor] * ticks) for floor in (0.1, 0.2, 0.3))
    listing = Listing((floors[0], floors[1], array("d", [inf] * ticks)), (0, 0, 1))
    shown: list[tuple[float, ...]] = []

    def choose(view: BidView) -> Choice | Spot:
        shown.append(tuple(view.floors))
        return choices[view.tick] if view.tick < len(choices) else Choice.NONE

    run = BidRun(0, 3000.0, 300.0 * len(choices), "bid")
    play_bids(CONFIG, run, floors, choose, BidJob(3000.0, run.deadline_s, "bid"), listing=listing)
    return shown


def test_a_machine_that_runs_for_us_hides_its_host() -> None:
    assert views([Spot(0, 0.1), Spot(0, 0.1)])[:2] == [(0.1, 0.2, inf), (inf, inf, inf)]


def test_a_paused_machine_shows_its_floor() -> None:
    assert views([Spot(2, 0.1), Choice.KEEP])[1] == (0.1, 0.2, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vast", "three-machines"])
def test_the_auction_finishes_in_time_for_less_than_on_demand(kind: Kind) -> None:
    suite = synthetic_suite(kind, 5, replace(DAY, work_s=3 * 3600.0), stretches=(1.3, 2.0), starts=2)

    def start(config: AvailabilityConfig | BidConfig, job: AvailabilityJob | BidJob) -> BidChooser:
        assert isinstance(config, BidConfig)
        assert isinstance(job, BidJob)
        return start_on_bids(config, job, {})

    for run in suite.runs:
        outcome = play(suite, run, start, Conditions())
        assert outcome.status == "finished"
        assert outcome.cost < 3.5 * suite.config.on_demand_price


@pytest.mark.slow
def test_storms_last_for_days_and_are_dear_everywhere() -> None:
    longest: dict[Kind, float] = {"calm": 0.0, "stormy": 0.0}
    for kind in longest:
        for seed in range(6):
            suite = synthetic_suite(kind, seed, starts=6)
            cheapest = [min(floors) for floors in zip(*suite.floors, strict=True)]
            dear = 1.15 * sorted(cheapest)[len(cheapest) // 10]
            spell = 0
            for floor in cheapest:
                spell = spell + 1 if floor > dear else 0
                longest[kind] = max(longest[kind], spell / 12)
    assert longest["calm"] < 6
    assert longest["stormy"] > 24


@pytest.mark.slow
def test_prices_that_trend_do_not_come_back_within_the_day() -> None:
    moved: dict[Kind, float] = {"calm": 0.0, "trending": 0.0}
    for kind in moved:
        rows = [synthetic_suite(kind, seed, starts=6).floors[0] for seed in range(6)]
        lows = [[min(row[day * 288 : day * 288 + 288]) for day in range(len(row) // 288)] for row in rows]
        moved[kind] = max(max(each) / min(each) for each in lows)
    assert moved["calm"] < 1.05
    assert moved["trending"] > 1.4
