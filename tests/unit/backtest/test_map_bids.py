"""The product's policy on bid suites: tables that stay small however short the ticks are."""

from __future__ import annotations

import pytest
from small_suites import bid_body

from autopilot.backtest.map_bids import MOST_STEPS, BidMapping
from autopilot.backtest.play import Conditions, play
from autopilot.backtest.suite import BidSuite
from autopilot.backtest.suite_file import suite_from

WORK_H = 10


@pytest.mark.parametrize(("tick_s", "step_ticks"), [(300, 1), (20, 2)])
def test_steps_are_ticks_until_there_would_be_too_many(
    tick_s: int, step_ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ten hours of work 20 s make 1,800 steps, at 300 s 120."""
    steps: list[float] = []
    shaped = BidMapping._shape

    def watched(self: BidMapping, view: object) -> object:
        shape = shaped(self, view)  # type: ignore[arg-type]
        steps.append(shape.floors.step_s)
        return shape

    monkeypatch.setattr(BidMapping, "_shape", watched)
    ticks = 16 * 3600 // tick_s
    calm = [0.5 + 0.02 * (tick * tick_s // 1800 % 3) for tick in range(2 * ticks)]
    body = bid_body(
        {"a": calm, "b": [2 * floor for floor in calm]},
        tick_s=tick_s,
        migrate_s=600,
        resume_s=120,
        checkpoint_s=600,
        runs=[[ticks // 2, WORK_H, 14, "bid"]],
    )
    suite = suite_from(body)
    assert isinstance(suite, BidSuite)
    outcome = play(suite, suite.runs[0], lambda terms, job: BidMapping(terms, job, {}).choose, Conditions())  # type: ignore[arg-type]
    assert set(steps) == {step_ticks * tick_s}
    assert WORK_H * 3600 / steps[0] <= MOST_STEPS
    assert outcome.status == "finished"
    assert outcome.on_demand == 0
    assert outcome.cost == pytest.approx(WORK_H * 0.6, rel=0.15), "of the cheaper one, disk included"
