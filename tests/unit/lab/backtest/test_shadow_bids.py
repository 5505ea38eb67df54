"""Bids by simulated bidders played on bid suites, and rules that hold the same time for a wrong estimate."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import inf

import pytest

from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.policies import parse_policies, starter
from autopilot_lab.backtest.promise import weigh_left
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, BidSuite, Pays
from autopilot_lab.backtest.suite_file import suite_from
from autopilot_lab.backtest.synthetic import Kind, synthetic_suite
from tests.unit.lab.backtest.small_suites import bid_body, random_bid_body

CONFIG = BidConfig(300.0, 3.0, 0.1, 600.0, 120.0, 600.0, ("a",))


def played(suite: BidSuite, policy: str, conditions: Conditions) -> list[Outcome]:
    start = starter(parse_policies(policy)[0], "bids", {"autopilot": PHASES})
    return [play(suite, run, start, conditions) for run in suite.runs]


def test_on_small_suites_it_is_in_time_and_cheaper_than_on_demand() -> None:
    suite = suite_from(random_bid_body(1))
    assert isinstance(suite, BidSuite)
    outcomes, dear = (played(suite, policy, Conditions()) for policy in ("autopilot", "on-demand"))
    assert {outcome.status for outcome in outcomes} == {"finished"}
    assert sum(outcome.cost for outcome in outcomes) < 0.5 * sum(outcome.cost for outcome in dear)


@pytest.mark.parametrize("pays", ["bid", "clearing", "cap"])
def test_whatever_is_paid_a_calm_machine_is_kept_at_about_its_floor(pays: Pays) -> None:
    suite = suite_from(bid_body(runs=[[10, 3, 9, "bid"]]))
    assert isinstance(suite, BidSuite)
    suite = replace(suite, runs=tuple(replace(run, pays=pays) for run in suite.runs))
    (outcome,) = played(suite, "autopilot", Conditions())
    assert (outcome.status, outcome.pauses, outcome.migrations, outcome.on_demand) == ("finished", 0, 0, 0.0)
    assert outcome.spot <= 3 * 1.25


def test_a_budget_is_not_spent_on_capacity_that_it_does_not_reach_to_the_end() -> None:
    floors = {"a": [1.0] * 40 + [2.8] * 40}
    suite = suite_from(bid_body(floors, runs=[[36, 3, 4.5, "bid"]]))
    assert isinstance(suite, BidSuite)
    (unbound,) = played(suite, "autopilot", Conditions())
    (bound,) = played(suite, "autopilot", Conditions(budget_share=0.4))
    assert unbound.on_demand > 0.0
    assert bound.on_demand == 0.0


@pytest.mark.slow
def test_its_numbers_are_set_by_name() -> None:
    suite = suite_from(random_bid_body(1))
    assert isinstance(suite, BidSuite)
    plain, forgetful = (
        sum(o.cost for o in played(suite, name, Conditions())) for name in ("autopilot", "autopilot:half_life_h=1")
    )
    assert plain != forgetful


def _live(kind: Kind, seed: int, live: Live, starts: int = 1) -> BidSuite:
    suite = as_searched(synthetic_suite(kind, seed, starts=starts, stretches=(1.25,)), live)
    return replace(suite, name=f"{kind} {seed}")


@pytest.mark.slow
def test_as_live_it_is_in_time_and_cheaper_than_the_rule_that_promises_the_same() -> None:
    live = Live()
    suite = _live("stormy", 40003, live)
    own, rule = (
        played(suite, name, Conditions(live=live))[0] for name in ("autopilot", "floor-markup:markup=1.02,promise=1")
    )
    assert (own.status, rule.status) == ("finished", "finished")
    assert own.cost < 1.1 * rule.cost


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calm", "stormy", "trending", "vast"])
@pytest.mark.parametrize("reports", [False, True])
def test_none_is_late_where_on_demand_would_be_in_time(kind: Kind, reports: bool) -> None:
    live = Live(reports_progress=reports)
    suite = _live(kind, 40100, live, starts=3)
    for own, dear in zip(
        *(played(suite, name, Conditions(live=live)) for name in ("autopilot", "on-demand")), strict=True
    ):
        assert own.status == "finished" or dear.status != "finished"


def _view(work_left_s: float, safe_left_s: float, progress: float | None = None) -> BidView:
    view = BidView([array("d", [1.0])])
    view.work_left_s, view.safe_left_s, view.progress = work_left_s, safe_left_s, progress
    return view


class TestWeighLeft:
    JOB = BidJob(work_s=20 * HOUR_S, deadline_s=30 * HOUR_S, pays="bid")

    def test_of_an_estimate_its_error_is_held(self) -> None:
        assert weigh_left(_view(1.0, 1.0), CONFIG, self.JOB) == pytest.approx((1.0, 1.0, 0.15 * 20 * HOUR_S))

    def test_with_little_slack_a_share_of_it(self) -> None:
        tight, hopeless = (replace(self.JOB, deadline_s=due_h * HOUR_S) for due_h in (22, 20))
        assert weigh_left(_view(1.0, 1.0), CONFIG, tight)[2] == pytest.approx((22 / 1.08 - 20) * HOUR_S)
        assert weigh_left(_view(1.0, 1.0), CONFIG, hopeless)[2] == 0.0

    def test_without_a_deadline_its_error_alone(self) -> None:
        endless = replace(self.JOB, deadline_s=inf)
        assert weigh_left(_view(1.0, 1.0), CONFIG, endless)[2] == pytest.approx(0.15 * 20 * HOUR_S)

    def test_progress_replaces_the_estimate(self) -> None:
        # A quarter is done after 4 h of the 20 that were estimated.
        view = _view(16 * HOUR_S, 16.5 * HOUR_S, progress=0.25)
        view.done_s = 4 * HOUR_S
        assert weigh_left(view, CONFIG, self.JOB) == pytest.approx((12 * HOUR_S, 12.5 * HOUR_S, 0.01 * 12 * HOUR_S))
