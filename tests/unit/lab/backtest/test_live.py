"""The daemon's day in a backtest: old searches cut off, slow loading, wrong estimates, moves that are made ready."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, isinf
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.live import (
    FIRST_LOOK_S,
    PREPARING_S,
    RELEASED_S,
    SEES_OUTBID_S,
    SEES_SAVED_S,
    Live,
    as_searched,
)
from autopilot_lab.backtest.map_live import LiveMapping
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, estimated_job, play
from autopilot_lab.backtest.suite import BidConfig, BidJob, BidSuite, Config, Job
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import bid_body, random_bid_body

pytestmark = pytest.mark.slow

DAYLIKE = {"tick_s": 300, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600}
LIVE = Live()


def suite_of(floors: dict[str, list[float]], live: Live = LIVE, **changes: object) -> BidSuite:
    suite = suite_from(bid_body(floors, **{**DAYLIKE, **changes}))
    assert isinstance(suite, BidSuite)
    return as_searched(suite, live)


def played(
    suite: BidSuite, choose: Callable[[BidView], Choice | Spot], live: Live = LIVE
) -> tuple[Outcome, list[tuple[int, Choice, int | None]]]:
    """The outcome, and what ran in each tick: (tick, running, machine)."""
    seen: list[tuple[int, Choice, int | None]] = []
    outcome = play(
        suite,
        suite.runs[0],
        lambda _config, _job: choose,
        Conditions(live=live),
        lambda view, _choice: seen.append((view.tick, view.running, view.machine)),
    )
    return outcome, seen


def test_a_search_shows_the_cheapest_machines_at_most_two_ticks_old() -> None:
    floors = {f"m{number}": [1.0 + (number * 7 + tick * 3) % 10 / 10 for tick in range(200)] for number in range(10)}
    live = Live(search_rows=4)
    suite = suite_of(floors, live, runs=[[0, 3, 6, "bid"]])
    assert suite.listing is not None
    rows = list(floors.values())
    for tick in range(200):
        shown = {number: row[tick] for number, row in enumerate(suite.listing.shown) if row[tick] < inf}
        assert len(shown) == 4
        ages = [
            age
            for age in range(3)
            if tick >= age
            and all(rows[number][tick - age] == floor for number, floor in shown.items())
            and max(shown.values()) <= min(row[tick - age] for n, row in enumerate(rows) if n not in shown)
        ]
        assert ages, tick
    assert suite == suite_of(floors, live, runs=[[0, 3, 6, "bid"]])


def test_loading_and_estimates_are_drawn_within_their_bounds_and_the_same_again() -> None:
    loading = [LIVE.loading_s("5", tick) for tick in range(500)]
    assert min(loading) >= 120
    assert max(loading) <= 1500
    assert 500 <= sum(loading) / len(loading) <= 700
    assert loading[3] == LIVE.loading_s("5", 3)
    suite = suite_of({"a": [1.0] * 400}, runs=[[start, 3, 6, "bid"] for start in range(300)])
    estimates = [estimated_job(suite, each, Conditions(live=LIVE)).work_s / each.work_s for each in suite.runs]
    assert min(estimates) >= 1 / 1.15
    assert max(estimates) <= 1 / 0.85
    assert min(estimates) < 0.9 < 1.1 < max(estimates)


def test_a_first_job_reads_no_record_and_its_own_machine_leaves_none() -> None:
    lengths: list[int] = []
    own: list[int] = []

    def choose(view: BidView) -> Choice | Spot:
        lengths.append(view.ticks_seen)
        own.append(sum(not isinf(floor) for floor in view.history(0, 1000)))
        return Spot(0, 2.0)

    suite = suite_of({"a": [1.0] * 400, "b": [1.5] * 400}, runs=[[100, 3, 6, "bid"]])
    played(suite, choose, Live(recorded_h=0))
    assert lengths[:3] == [1, 2, 3]
    assert own[-1] == 1, "while it runs for us it does not show its floor"
    lengths.clear()
    played(suite, choose, Live(recorded_h=4))
    assert lengths[0] == 49


def move_to_b(view: BidView) -> Choice | Spot:
    return Spot(0 if view.tick < 12 else 1, 2.0)


def test_a_move_makes_the_new_machine_ready_while_the_old_one_works() -> None:
    floors = {"a": [1.0] * 400, "b": [0.5] * 400}
    suite = suite_of(floors, runs=[[100, 3, 6, "bid"]])
    outcome, seen = played(suite, move_to_b)
    first_s = LIVE.loading_s("100", 100)
    first_b = next(tick for tick, _, machine in seen if machine == 1)
    # It is seen on the new machine in the tick after its loading ended.
    assert (first_b - 12) * 300 >= LIVE.loading_s("100", 112) > (first_b - 13) * 300
    assert outcome.migrations == 1
    assert outcome.pauses == 0
    # All that the work waits for: the first machine's loading, and fetching what the old one saved.
    assert len(seen) == pytest.approx((3 * 3600 + first_s + 120) / 300, abs=1)
    # A machine that loads is not billed: the first one and the new one are from when they are up.
    up_s = (first_b - 12) * 300 - LIVE.loading_s("100", 112) + PREPARING_S
    assert outcome.lost == pytest.approx(2.0 * (PREPARING_S + up_s + 120) / 3600)


def test_a_new_machine_that_is_outbid_while_it_loads_is_dropped() -> None:
    floors = {"a": [1.0] * 400, "b": [0.5] * 113 + [9.0] * 287}
    suite = suite_of(floors, runs=[[100, 3, 6, "bid"]])
    asked: list[int] = []

    def choose(view: BidView) -> Choice | Spot:
        asked.append(view.tick)
        return Spot(1 if view.tick == 12 else 0, 2.0)

    outcome, seen = played(suite, choose)
    assert {machine for _, running, machine in seen if running is Choice.SPOT} == {0}
    assert outcome.status == "finished"
    assert sorted(set(asked)) == list(range(len(seen)))


def test_an_old_machine_that_is_lost_makes_way_for_the_new_one_at_once() -> None:
    floors = {"a": [1.0] * 113 + [9.0] * 287, "b": [0.5] * 400}
    suite = suite_of(floors, runs=[[100, 3, 6, "bid"]])
    outcome, seen = played(suite, move_to_b)
    assert outcome.pauses == 1
    assert {machine for tick, _, machine in seen if tick > 13} == {1}
    assert outcome.status == "finished"


def test_an_outbid_is_answered_within_its_tick_and_resuming_is_hardly_billed() -> None:
    floors = {"a": [1.0] * 125 + [1.2] * 275, "b": [3.0] * 400}
    suite = suite_of(floors, runs=[[100, 3, 6, "bid"]])
    asked: list[tuple[int, float, float]] = []

    def choose(view: BidView) -> Choice | Spot:
        if view.running is Choice.KEEP:
            asked.append((view.tick, view.now_s, view.floors[0]))
            return Spot(0, 1.2)
        return Spot(0, max(view.bid, 1.1))

    outcome, _ = played(suite, choose)
    assert asked == [(24, 24 * 300 + SEES_OUTBID_S, 1.2)], "in the tick itself, with the floor that won"
    assert outcome.pauses == 1
    assert outcome.status == "finished"
    # Its answer, loading and resuming cost time alone, but for the seconds in which a machine is up and prepares.
    first_s = FIRST_LOOK_S + LIVE.loading_s("100", 100)
    at_first_s, thrown_back_s = divmod(24 * 300 - first_s, 600)
    at_first_s *= 600
    assert outcome.lost == pytest.approx((1.1 * PREPARING_S + 1.2 * PREPARING_S + 1.1 * thrown_back_s) / 3600)
    done_s = outcome.decisions * 300 - first_s - thrown_back_s - SEES_OUTBID_S - 120
    after_end_s = min(done_s - 3 * 3600, RELEASED_S)
    assert outcome.spot == pytest.approx((1.1 * at_first_s + 1.2 * (3 * 3600 - at_first_s + after_end_s)) / 3600)


def test_a_lower_bid_can_be_tried_just_after_a_checkpoint() -> None:
    """The daemon looks every 15 s, a backtest twice in ten minutes: it must not miss the moment after a checkpoint."""
    floors = {"a": [1.0] * 125 + [1.2] * 10 + [1.0] * 265}
    suite = suite_of(floors, runs=[[100, 3, 6, "bid"]])
    tried: list[float] = []
    begun: list[float] = []

    def choose(view: BidView) -> Choice | Spot:
        unsafe_s = view.safe_left_s - view.work_left_s
        if view.running is Choice.SPOT and view.pending_s == 0 and view.tick >= 26:
            if unsafe_s == SEES_SAVED_S and not tried:
                tried.append(view.now_s)
                return Spot(0, 1.1)
            begun.append(unsafe_s)
        return Spot(0, 1.3)

    outcome, _ = played(suite, choose)
    assert begun[0] > 0, "at its beginning no tick of them shows it"
    assert tried[0] % 300 > 0, "in the midst of a tick"
    assert outcome.pauses == 1
    thrown_back_s = SEES_SAVED_S  # done before the daemon knew of the checkpoint
    assert outcome.lost == pytest.approx(1.3 * (2 * PREPARING_S + thrown_back_s) / 3600)
    waited_s = FIRST_LOOK_S + LIVE.loading_s("100", 100) + SEES_OUTBID_S + 120 + thrown_back_s
    assert outcome.decisions * 300 == pytest.approx(3 * 3600 + waited_s, abs=300)


def mapped(suite: BidSuite, live: Live) -> tuple[Outcome, list[tuple[float, bool]]]:
    """The policy's outcome; of each tick the bid at its beginning, and whether bids were learnt."""
    told: list[tuple[float, bool]] = []

    def start(config: Config, job: Job) -> BidChooser:
        assert isinstance(config, BidConfig)
        assert isinstance(job, BidJob)
        mapping = LiveMapping(config, job, {}, PHASES)

        def choose(view: BidView) -> Choice | Spot:
            choice = mapping.choose(view)
            if len(told) == view.tick:
                told.append((choice.bid if isinstance(choice, Spot) else 0.0, mapping._is_known))
            return choice

        return choose

    return play(suite, suite.runs[0], start, Conditions(live=live)), told


def test_the_first_four_hours_bids_follow_the_rule_and_then_what_was_recorded() -> None:
    floors = {name: [1.0 + 0.02 * (tick % 5) for tick in range(1100)] for name in ("a", "b")}
    suite = suite_of(floors, runs=[[300, 26, 60, "bid"]])
    outcome, told = mapped(suite, Live(recorded_h=0, estimate_error=0.0))
    assert outcome.status == "finished"
    assert outcome.on_demand == 0
    learnt = [is_learnt for _, is_learnt in told]
    assert learnt.index(True) == 47
    assert told[0][0] == pytest.approx(1.05 * 1.0, rel=0.05), "floor x 1.05"
    _, told = mapped(suite, Live(estimate_error=0.0))
    assert told[0][1]
    assert next(bid for bid, _ in told if bid) != pytest.approx(1.05, abs=0.01), "by what was recorded"


def test_no_bid_passes_nine_tenths_of_on_demand() -> None:
    suite = suite_of({"a": [2.65] * 400, "b": [2.75] * 400}, runs=[[300, 3, 6, "bid"]])
    outcome, told = mapped(suite, LIVE)
    assert max(bid for bid, _ in told) <= 0.9 * 3.0
    assert outcome.status == "finished"


def test_a_job_that_reports_progress_is_known_to_be_shorter_than_its_estimate() -> None:
    seen: list[float | None] = []

    def choose(view: BidView) -> Choice | Spot:
        seen.append(view.progress)
        return Spot(0, 2.0)

    suite = suite_of({"a": [1.0] * 400}, runs=[[100, 3, 6, "bid"]])
    played(suite, choose)
    assert set(seen) == {None}
    seen.clear()
    played(suite, choose, Live(reports_progress=True))
    assert seen[0] == 0.0
    assert seen[-1] is not None
    assert 0.9 < seen[-1] < 1.0


def test_the_command_plays_as_live_unless_asked_for_the_ideal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bids.json"
    path.write_text(json.dumps(random_bid_body(2)))

    def cost(*options: str) -> float:
        argv = ["backtest", "--suite", str(path), "--policy", "floor-markup", "--jobs", "1", "--json", *options]
        assert run(argv) == 0
        return float(json.loads(capsys.readouterr().out)["policies"][0]["mean_cost"])

    assert cost() == cost("--as-live") != cost("--ideal")
    assert run(["backtest", "--suite", str(path), "--recorded", "soon"]) == 2
