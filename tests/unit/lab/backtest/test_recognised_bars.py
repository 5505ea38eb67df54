"""What is recognised in the output of jobs that are played as live: it may be of something else than the job."""

from __future__ import annotations

import pytest

from autopilot.domain.readings import Recognised
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.play import Conditions, play
from autopilot_lab.backtest.synthetic import synthetic_suite


@pytest.mark.parametrize("live", [Live(bars="true"), Live(bars="false")], ids=["true", "false"])
def test_the_job_s_own_bar_goes_on_where_its_work_does_and_another_one_begins_again_with_each_run(live: Live) -> None:
    """On demand for 30 ticks of each 40."""
    suite = as_searched(synthetic_suite("calm", 1, starts=1, stretches=(2.0,)), live)
    work_s, told = suite.runs[0].work_s, list[Recognised]()

    def choose(view: BidView) -> Choice:
        assert view.recognised is not None
        told.append(view.recognised)
        return Choice.ON_DEMAND if view.tick % 40 < 30 else Choice.NONE

    play(suite, suite.runs[0], lambda _config, _job: choose, Conditions(live=live))
    shares = [round(each.fraction, 9) for each in told]
    assert (shares == sorted(shares)) == (live.bars == "true")
    known = [each for each in told if each.left_s is not None]
    assert 0 < len(known) < len(told)
    if live.bars == "true":
        assert all(each.left_s == pytest.approx((1 - each.fraction) * work_s, abs=1e-3) for each in known)
