"""The product's policy on bid suites: in time, and on the cheaper machine."""

from __future__ import annotations

import pytest

from autopilot_lab.backtest.bids import BidChooser, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.map_bids import BidMapping
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.perturbation import Perturbation
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.suite import BidConfig, BidJob, Config, Job
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import bid_body

WORK_H = 10
EXACTLY = Conditions()


def played(body: dict[str, object], conditions: Conditions = EXACTLY) -> Outcome:
    """The first run's."""

    def start(config: Config, job: Job) -> BidChooser:
        assert isinstance(config, BidConfig)
        assert isinstance(job, BidJob)
        return BidMapping(config, job, {}).choose

    suite = suite_from(body)
    return play(suite, suite.runs[0], start, conditions)


@pytest.mark.parametrize(
    ("condition", "deadline_h"),
    [(Perturbation(), 3.75), (Perturbation(lag_ticks=1), 4.0), (Perturbation(vanish=0.1), 4.5)],
)
@pytest.mark.slow
def test_whenever_spot_is_gone_for_good_the_work_is_done_in_time(condition: Perturbation, deadline_h: float) -> None:
    """The guard leaves all of the slack but what one more loss costs to spot, and no minute of that."""
    before, ticks = 96, round(deadline_h * 12)
    spot = 0.0
    for gone in range(1, ticks):
        floors = [1.0 + 0.02 * (tick % 5) for tick in range(before + gone)] + [9.0] * (ticks - gone + 2)
        config = {"tick_s": 300, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600}
        outcome = played(
            bid_body({"a": floors}, **config, runs=[[before, 3, deadline_h, "bid"]]),
            Conditions(perturbation=condition),
        )
        assert outcome.status == "finished", gone
        spot += outcome.spot
    assert spot > 0.0


def test_a_machine_that_has_just_begun_is_not_taken_for_one_that_works() -> None:
    """Two ticks of set-up, then work."""
    before = 96
    floors = [1.0 + 0.02 * (tick % 5) for tick in range(before)] + [1.0] * 80
    config = {"tick_s": 300, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600}
    suite = suite_from(bid_body({"a": floors}, **config, runs=[[before, 3, 6, "bid"]]))
    told: list[tuple[Choice, float, str, int]] = []

    def start(given: Config, job: Job) -> BidChooser:
        assert isinstance(given, BidConfig)
        assert isinstance(job, BidJob)
        mapping = BidMapping(given, job, {})

        def choose(view: BidView) -> Choice | Spot:
            seen = view.running, view.pending_s
            choice = mapping.choose(view)
            lease = mapping._session.job.main
            told.append((*seen, "", 0) if lease is None else (*seen, lease.agent.state, lease.agent.boot))
            return choice

        return choose

    play(suite, suite.runs[0], start, EXACTLY)
    running = [(pending_s, state, boots) for choice, pending_s, state, boots in told if choice is Choice.SPOT]
    assert running[0] == (300, "setting_up", 1)
    assert running[-1][1] == "running"


@pytest.mark.slow
def test_a_far_cheaper_machine_is_moved_to() -> None:
    """Both are below what most machines cost, which must not make them alike."""
    before, ticks = 288, 200
    dear = {f"dear-{number}": [1.5 + 0.1 * number] * (before + ticks) for number in range(8)}
    cheap = [9.0] * 60 + [0.6 + 0.01 * (tick % 3) for tick in range(40)] + [9.0] * (before - 100 + 24)
    floors = {
        **dear,
        "fair": [1.1 + 0.01 * (tick % 3) for tick in range(before + ticks)],
        "cheap": cheap + [0.6] * (before + ticks - len(cheap)),
    }
    config = {"tick_s": 300, "migrate_s": 600, "resume_s": 120, "checkpoint_s": 600}
    outcome = played(bid_body(floors, **config, runs=[[before, WORK_H, 14, "bid"]]))
    assert outcome.migrations >= 1
    # Two hours until the cheap one can be had.
    assert outcome.cost < 2 * 1.25 + 8.5 * 0.75
