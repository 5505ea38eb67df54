"""Time held for a wrong estimate, as the product holds it, for rules that play a bid suite."""

from __future__ import annotations

from autopilot.domain.params import Deadline
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.suite import BidConfig, BidJob


def weigh_left(view: BidView, config: BidConfig, job: BidJob) -> tuple[float, float, float]:
    """Seconds: the work left, the work left from the last checkpoint on, and the time that is held for more.

    By progress, where enough is reported, or by the estimate. Without a deadline nothing limits what is held.
    """
    numbers = Deadline()
    if view.progress is not None and view.progress >= numbers.pace_known_at:
        left_s = view.done_s * (1 / view.progress - 1)
        return left_s, left_s + view.safe_left_s - view.work_left_s, numbers.pace_error * left_s
    first_slack_s = max(job.deadline_s - job.work_s - config.migrate_s, 0.0)
    longest_s = max(job.deadline_s / numbers.least_stretch - job.work_s, 0.0)
    held_s = min(numbers.estimate_error * job.work_s, numbers.held_share * first_slack_s, longest_s)
    return view.work_left_s, view.safe_left_s, held_s
