"""How pressing time is: slack against the deadline, and the moment from which only on-demand is safe.

    slack = deadline − now − remaining × (1 + error) − restart

``restart`` is what must still pass before the command runs again (zero while it runs). On-demand is needed as soon as
one more preemption could not be afforded: detection, set-up and the work lost since the last checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, Role
from autopilot.policy.params import Params
from autopilot.policy.speed import work_left


class Verdict(StrEnum):
    FINE = "fine"
    TIGHT = "tight"
    """Only on-demand is still safe."""
    WILL_MISS = "will_miss"
    """Not even on-demand from now on would make it."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """``slack`` None: the job has no deadline (or no estimate, without which none is accepted)."""

    slack: timedelta | None
    one_more_loss: timedelta
    verdict: Verdict | None

    is_past: bool = False
    """The deadline has passed: there is nothing left to hurry for."""

    @property
    def needs_on_demand(self) -> bool:
        return self.slack is not None and self.slack < self.one_more_loss and not self.is_past


def is_at_work(lease: Lease | None) -> bool:
    return lease is not None and lease.running_since is not None and lease.role in (Role.RUN, Role.SAVE_AND_STOP)


def pressure(job: Job, now: datetime, params: Params) -> Pressure:
    remaining = work_left(job, job.main.gpu, job.main.num_gpus) if job.main else job.remaining_work
    loss = timedelta(seconds=params.tick_lag_s + params.detect_s + params.setup_s) + job.spec.checkpoint_interval
    if job.spec.deadline is None or remaining is None:
        return Pressure(None, loss, None)
    restart = timedelta(0) if is_at_work(job.main) else timedelta(seconds=params.setup_s)
    slack = job.spec.deadline - now - remaining * (1 + params.work_error) - restart
    if job.spec.deadline - now < remaining + restart:
        return Pressure(slack, loss, Verdict.WILL_MISS, is_past=now >= job.spec.deadline)
    return Pressure(slack, loss, Verdict.TIGHT if slack < loss else Verdict.FINE)
