"""Time held for a wrong estimate, as the product holds it, for whatever plays a bid suite."""

from __future__ import annotations

from autopilot.domain.params import Deadline
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.suite import BidConfig, BidJob

SHOWN_AT = 0.03
"""From that share of its work on, a job's own pace replaces the estimate."""
SHOWN_ERROR = 0.01
"""Share of what is left that is held from then on."""


class Promise:
    """Of one run. ``hold`` brings a view's work to what the job's progress says, and gives the time to hold."""

    def __init__(self, config: BidConfig, job: BidJob) -> None:
        numbers = Deadline()
        first_slack_s = max(job.deadline_s - job.work_s - config.migrate_s, 0.0)
        longest_s = job.deadline_s / numbers.least_stretch - job.work_s
        self._work_s = job.work_s
        self._held_s = max(min(numbers.estimate_error * job.work_s, numbers.held_share * first_slack_s, longest_s), 0.0)

    def hold(self, view: BidView) -> float:
        """Seconds; ``view.work_left_s`` and ``view.safe_left_s`` change where progress is reported."""
        if view.progress is None or view.progress < SHOWN_AT:
            return self._held_s
        done_s, unsaved_s = self._work_s - view.work_left_s, view.safe_left_s - view.work_left_s
        view.work_left_s = done_s * (1 / view.progress - 1)
        view.safe_left_s = view.work_left_s + unsaved_s
        return SHOWN_ERROR * view.work_left_s
