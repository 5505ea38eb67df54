"""Markets like the field have the traits that they are made for: losses, refusals, duds, prices, copies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isinf
from statistics import median

import pytest

from autopilot_lab.backtest.bid_baselines import floor_markup
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.copies import play_copies
from autopilot_lab.backtest.crowds import ON_DEMAND_SPREAD
from autopilot_lab.backtest.live import LONGEST_LOADING_S, Live, as_searched
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, Start, play
from autopilot_lab.backtest.suite import BidConfig, BidJob, BidSuite, Config, Job
from autopilot_lab.backtest.suite_file import suite_from
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite
from tests.unit.lab.backtest.small_suites import bid_body

FIELD = Live(refuses=True)
HOURLY = {"tick_s": 300, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600, "runs": [[100, 3, 8, "bid"]]}


def made_up(kind: Kind, seed: int, live: Live = FIELD) -> BidSuite:
    return as_searched(synthetic_suite(kind, seed, starts=1, stretches=(1.5,)), live)


def by_hand(floors: dict[str, list[float]], live: Live, shown: dict[str, list[float]] | None = None) -> BidSuite:
    """``shown``: where it is not the floors that are."""
    suite = suite_from(bid_body(shown or floors, **HOURLY))
    assert isinstance(suite, BidSuite)
    searched = as_searched(suite, live)
    true = suite_from(bid_body(floors, **HOURLY))
    assert isinstance(true, BidSuite)
    return BidSuite(true.name, true.config, true.floors, true.runs, searched.listing)


def bids(markup: float) -> Start:
    def start(config: Config, job: Job) -> BidChooser:
        assert isinstance(config, BidConfig)
        assert isinstance(job, BidJob)
        return floor_markup(config, job, {"markup": markup})

    return start


@dataclass
class Tally:
    pauses: int = 0
    hours: float = 0.0
    refused: int = 0

    def add(self, suite: BidSuite, live: Live, markup: float = 1.02) -> Outcome:
        def see(view: BidView, answer: Choice | Spot) -> None:
            self.hours += (view.running is Choice.SPOT) * suite.config.tick_s / 3600

        outcome = play(suite, suite.runs[0], bids(markup), Conditions(live=live), see)
        self.pauses += outcome.pauses
        self.refused += outcome.refused
        return outcome


def losses_per_h(kind: Kind, seeds: Iterable[int], markup: float = 1.02) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(made_up(kind, seed), FIELD, markup)
    return tally


def price_ratio(suite: BidSuite) -> float:
    """On demand over the cheapest floor that is shown, for the same work."""
    assert suite.listing is not None
    speeds = [suite.config.speed(machine) for machine in range(len(suite.floors))]
    ticks = range(0, len(suite.floors[0]), 6)
    return suite.config.on_demand_price / median(
        min(row[tick] / speed for row, speed in zip(suite.listing.shown, speeds, strict=True)) for tick in ticks
    )


@pytest.mark.slow
def test_a_machine_of_a_contested_market_is_often_lost_refused_and_out_of_sight() -> None:
    tally = losses_per_h("contested", range(1, 4))
    assert 0.3 < tally.pauses / tally.hours < 0.9
    assert tally.refused >= 3


@pytest.mark.slow
def test_a_bidder_at_1_02_loses_its_machine_0_4_to_0_7_times_an_hour_on_a_contested_market() -> None:
    tally = losses_per_h("contested", range(1, 25))
    assert 0.4 < tally.pauses / tally.hours < 0.7
    calm = losses_per_h("vast-like", range(1, 9))
    assert calm.pauses / calm.hours < 0.2
    higher = losses_per_h("contested", range(1, 9), markup=1.2)
    assert higher.pauses / higher.hours < tally.pauses / tally.hours


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vast-like", "contested", "two-gpus"])
def test_on_demand_costs_1_7_times_the_cheapest_floor_that_is_shown(kind: Kind) -> None:
    assert price_ratio(made_up(kind, 5)) == pytest.approx(ON_DEMAND_SPREAD, rel=0.1)


def test_rivals_of_a_contested_market_are_not_shown() -> None:
    suite = synthetic_suite("contested", 7, starts=1, stretches=(1.1,))
    assert suite.listing is not None
    hidden = seen = 0
    for true, shown in zip(suite.floors, suite.listing.shown, strict=True):
        for floor, read in zip(true, shown, strict=True):
            seen += not isinf(read)
            hidden += read < floor / 1.03 < inf
    assert 0.05 < hidden / seen < 0.4, "listed at the host's own floor, while a rival bids more"


def test_two_gpus_are_on_one_market_and_neither_is_always_the_better_one() -> None:
    suite = synthetic_suite("two-gpus", 3, starts=1, stretches=(1.1,))
    by_gpu = {gpu.name: gpu for gpu in suite.config.gpus}
    assert len(by_gpu) == 2
    assert {gpu.speed for gpu in by_gpu.values()} == {1.0, 1.5}
    best = set()
    for tick in range(0, len(suite.floors[0]), 12):
        prices = [row[tick] / gpu.speed for row, gpu in zip(suite.floors, suite.config.gpus, strict=True)]
        best.add(suite.config.gpus[prices.index(min(prices))].name)
    assert best == set(by_gpu)


# --- a create is refused


def test_a_create_below_the_floor_that_is_now_is_refused_and_the_next_one_is_tried_within_the_tick() -> None:
    floors = {"a": [0.5] * 95 + [0.9] * 305, "b": [0.6] * 400}
    suite = by_hand(floors, FIELD, shown={"a": [0.5] * 400, "b": [0.6] * 400})
    answers: list[tuple[int, int]] = []
    rule = floor_markup(suite.config, BidJob(3 * 3600.0, 8 * 3600.0, "bid", is_live=True), {"markup": 1.02})

    def choose(view: BidView) -> Choice | Spot:
        answer = rule(view)
        if isinstance(answer, Spot):
            answers.append((view.tick, answer.machine))
        return answer

    outcome = play(suite, suite.runs[0], lambda _config, _job: choose, Conditions(live=FIELD))
    assert answers[:2] == [(0, 0), (0, 1)], "the cheapest is refused, and the next one is had in the same tick"
    assert outcome.refused == 1
    assert outcome.status == "finished"
    # Where creates are not refused, the machine is held, paused, for the price that it costs.
    held = Live()
    paused = by_hand(floors, held, {"a": [0.5] * 400, "b": [0.6] * 400})
    old = play(paused, suite.runs[0], bids(1.02), Conditions(live=held))
    assert old.refused == 0


def test_a_machine_that_refused_is_left_alone_for_half_an_hour() -> None:
    floors = {"a": [0.9] * 400}
    suite = by_hand(floors, FIELD, shown={"a": [0.5] * 400})
    shown: list[float] = []

    def choose(view: BidView) -> Choice | Spot:
        shown.append(view.floors[0])
        return Spot(0, 0.51) if view.floors[0] < inf else Choice.NONE

    outcome = play(suite, suite.runs[0], lambda _config, _job: choose, Conditions(live=FIELD))
    assert outcome.cost == 0.0
    assert 1 < outcome.refused <= 8 * 2 + 1
    assert shown[:3] == [0.5, inf, inf]


# --- launches that come to nothing


def test_a_dud_loads_and_is_given_up_and_nothing_was_done() -> None:
    live = Live(duds=0.9999, refuses=True)
    suite = by_hand({"a": [0.5] * 400, "b": [0.6] * 400}, live)
    held: list[tuple[Choice, int | None, float]] = []
    outcome = play(
        suite, suite.runs[0], bids(1.02), Conditions(live=live),
        lambda view, _answer: held.append((view.running, view.machine, view.done_s)),
    )  # fmt: skip
    assert outcome.duds >= 3
    assert outcome.done_s == 0.0
    assert outcome.status == "late"
    assert {machine for _, machine, _ in held} >= {0, 1}, "the other one is tried when the first came to nothing"
    longest = LONGEST_LOADING_S / suite.config.tick_s + 1
    assert max(len(run) for run in _runs_of_one(held)) <= longest + 1


def _runs_of_one(held: list[tuple[Choice, int | None, float]]) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    before: int | None = None
    for tick, (running, machine, _) in enumerate(held):
        if running is Choice.SPOT and machine != before:
            runs.append([])
        if running is Choice.SPOT:
            runs[-1].append(tick)
        before = machine
    return runs


def test_three_of_ten_launches_come_to_nothing() -> None:
    live = Live(duds=0.3)
    drawn = [live.is_dud("7", tick) for tick in range(2000)]
    assert 0.26 < sum(drawn) / len(drawn) < 0.34
    assert drawn == [live.is_dud("7", tick) for tick in range(2000)]
    assert not any(Live().is_dud("7", tick) for tick in range(100))


def test_a_move_to_a_dud_leaves_the_old_machine_at_work() -> None:
    floors = {"a": [0.5] * 400, "b": [0.3] * 400}
    tick = next(tick for tick in range(12, 200) if Live(duds=0.5).is_dud("100", 100 + tick))
    first = next(tick for tick in range(12) if not Live(duds=0.5).is_dud("100", 100 + tick))
    live = Live(duds=0.5)
    suite = by_hand(floors, live)
    running: list[Choice] = []

    def choose(view: BidView) -> Choice | Spot:
        running.append(view.running)
        if view.tick < first:
            return Choice.NONE
        return Spot(1, 0.4) if view.tick == tick and view.machine == 0 else Spot(view.machine or 0, 0.6)

    outcome = play(suite, suite.runs[0], lambda _config, _job: choose, Conditions(live=live))
    assert outcome.duds == 1
    assert outcome.status == "finished"
    assert set(running[first + 1 :]) == {Choice.SPOT}


# --- two speeds


def test_a_faster_gpu_does_the_work_sooner_and_is_chosen_by_what_the_work_costs() -> None:
    suite = synthetic_suite("two-gpus", 3, starts=1, stretches=(1.5,))
    config = suite.config
    fast = next(number for number, gpu in enumerate(config.gpus) if gpu.speed > 1)
    floors = tuple(row[:] for row in suite.floors)
    for row in floors:
        row[:] = type(row)("d", [0.3]) * len(row)
    even = as_searched(BidSuite("even", config, floors, suite.runs), Live(search_rows=0))
    machines: set[int | None] = set()
    outcome = play(
        even, even.runs[0], bids(1.02), Conditions(live=Live(search_rows=0)),
        lambda view, _answer: machines.add(view.machine),
    )  # fmt: skip
    assert {config.gpus[machine].name for machine in machines if machine is not None} == {config.gpus[fast].name}
    assert outcome.spot == pytest.approx(0.3 * 1.02 * 24 / 1.5, rel=0.02)


# --- copies


def test_one_copy_plays_as_if_alone_and_two_have_a_machine_each_where_there_are_two() -> None:
    floors = {"a": [0.3] * 400, "b": [0.304] * 400, "c": [0.5] * 400}
    suite = by_hand(floors, FIELD)
    conditions = Conditions(live=FIELD)
    alone = play(suite, suite.runs[0], bids(1.02), conditions)
    (one,) = play_copies(suite, suite.runs[0], bids(1.02), conditions, 1)
    assert (one.cost, one.status, one.pauses) == (alone.cost, alone.status, alone.pauses)
    two = play_copies(suite, suite.runs[0], bids(1.02), conditions, 2)
    assert [outcome.pauses for outcome in two] == [0, 0]
    assert [outcome.spot for outcome in two] == pytest.approx([3 * 0.306, 3 * 0.304 * 1.02], rel=0.015)


def test_copies_pay_more_than_one_alone_where_machines_are_short() -> None:
    suite = by_hand({"a": [0.3] * 400, "b": [0.35] * 400}, FIELD)
    conditions = Conditions(live=FIELD)
    (one,) = play_copies(suite, suite.runs[0], bids(1.02), conditions, 1)
    four = play_copies(suite, suite.runs[0], bids(1.02), conditions, 4)
    assert sum(outcome.cost for outcome in four) / 4 > 1.3 * one.cost
    assert sum(outcome.pauses for outcome in four) > 0, "they outbid one another"
    again = play_copies(suite, suite.runs[0], bids(1.02), conditions, 4)
    assert [outcome.cost for outcome in again] == [outcome.cost for outcome in four]


@pytest.mark.parametrize("copies", [0, 65])
def test_no_number_of_copies_is_played_that_is_not_bounded(copies: int) -> None:
    suite = by_hand({"a": [0.3] * 400}, FIELD)
    with pytest.raises(ValueError, match="1 to 64 copies"):
        play_copies(suite, suite.runs[0], bids(1.02), Conditions(live=FIELD), copies)


# --- the promise


def view_of(config: BidConfig, **values: object) -> BidView:
    view = BidView(())
    usual: dict[str, object] = {
        "tick": 0, "now_s": 0.0, "ticks_left": 400, "work_left_s": 24 * 3600.0, "safe_left_s": 24 * 3600.0,
        "done_s": 0.0, "saved_s": 0.0, "running": Choice.NONE, "machine": None, "bid": 0.0, "is_set_up": False,
        "pending_s": 0.0,
        "floors": [0.3], "spent": 0.0, "progress": None,
    }  # fmt: skip
    for name, value in (usual | values).items():
        setattr(view, name, value)
    return view


CONFIG = BidConfig(300.0, 0.51, 0.01, 600.0, 120.0, 600.0, ("a",))


def goes_on_demand(ticks_left: int, promise: float) -> bool:
    asked = BidJob(24 * 3600.0, 30 * 3600.0, "bid", is_live=True)
    rule = floor_markup(CONFIG, asked, {"markup": 1.02, "promise": promise})
    return rule(view_of(CONFIG, ticks_left=ticks_left)) is Choice.ON_DEMAND


def test_a_rule_with_the_promise_goes_on_demand_while_an_estimate_may_be_as_wrong_as_time_is_held_for() -> None:
    # The least of 15 % of the estimate, 0.6 of the first slack and a deadline / 1.08; and 20 min for another machine.
    held_s = min(0.15 * 24, 0.6 * (30 - 24 - 1 / 6), 30 / 1.08 - 24) * 3600
    pressed = int((24 * 3600 + held_s + 1200) / 300)
    assert goes_on_demand(pressed, promise=1.0)
    assert not goes_on_demand(pressed + 1, promise=1.0)
    assert not goes_on_demand(pressed, promise=0.0)


def test_a_rule_with_the_promise_stops_within_its_budget() -> None:
    asked = BidJob(24 * 3600.0, 30 * 3600.0, "bid", budget=5.0, is_live=True)
    rule = floor_markup(CONFIG, asked, {"markup": 1.02, "promise": 1.0})
    assert isinstance(rule(view_of(CONFIG, spent=4.9)), Spot)
    assert rule(view_of(CONFIG, spent=4.95)) is Choice.PARK
    assert isinstance(rule(view_of(CONFIG, ticks_left=250)), Spot), "on demand would go beyond the budget"


def test_without_a_deadline_a_rule_never_goes_on_demand() -> None:
    asked = BidJob(inf, inf, "bid", is_live=True)
    for promise in (0.0, 1.0):
        rule = floor_markup(CONFIG, asked, {"markup": 1.02, "promise": promise})
        assert isinstance(rule(view_of(CONFIG, work_left_s=inf, safe_left_s=inf)), Spot)
