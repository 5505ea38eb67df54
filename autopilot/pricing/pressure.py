"""How pressing time is: slack against the deadline, and the moment from which only on-demand is safe.

    slack = deadline − now − (remaining + held) − restart
    held  = min(error × all of the work, share × slack at first, deadline ÷ least stretch − all of the work)

Once the job shows its own pace, that replaces the estimate, and little is held for its error. Progress that is only
recognised in its output (``weigh_recognised``) never makes what remains less: it frees a part of what is held.

    remaining' = remaining + trust × max(bar − remaining, 0)
    held'      = (1 − trust) × held + trust × min(pace error × remaining', held)
    trust      = most × confidence × min(seen ÷ known at, 1) × min(whole ÷ estimate, estimate ÷ whole)

``bar`` is the work left at the pace of what was recognised, ``whole`` all of the job at that pace; ``estimate`` is the
work that is done and what remains of it by the estimate. The last factor is
what two sources that know nothing of one another say of each other: the bar of a validation or of a download takes
another time than the job, and counts for little. For the same reason a bar that takes ever longer adds less than one
estimate of work.
``restart`` is what must still pass before the command runs again (zero while it runs).

Two readings of it. The guard is exact: anything but on-demand capacity may be chosen only if, after one step that
brings as little as it can and loses all that is not saved, on-demand can still finish in whole steps. The rule of
thumb, for when costs to go are not known, asks for on-demand as soon as one more preemption could not be afforded:
detection, set-up and the work lost since the last checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil, floor

from autopilot.domain.agent_state import AT_WORK
from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease, Role
from autopilot.domain.params import Deadline, Params
from autopilot.pricing.speed import work_left, work_left_anywhere
from autopilot.pricing.traffic import restart_s

ROUNDING = 1e-9


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
    left_s: float = 0.0
    """Until the deadline."""
    work_s: float = 0.0
    """At work, until the job is done, by the estimate; half of what it may yet be once the estimate is used up.
    Without an estimate the hours that are weighed in its place."""
    upper_work_s: float = 0.0
    """The same if the estimate is as wrong as time is held for."""
    to_on_demand_s: float = 0.0
    """From choosing on-demand capacity to work going on there, on-demand offers that vanish included."""
    at_risk_s: float = 0.0
    """Work and time that a loss may cost before anything is done about it."""
    step_s: float = 1.0

    @property
    def needs_on_demand(self) -> bool:
        return self.slack is not None and self.slack < self.one_more_loss and not self.is_past

    def leaves_time(self, progress_s: float) -> bool:
        """Whether on-demand can still finish after one step that brings so much work and loses what is at risk."""
        left = self.upper_work_s - progress_s
        if left <= 0.0:
            return True
        steps = floor(self.left_s / self.step_s + ROUNDING) - 1
        return ceil((left + self.at_risk_s + self.to_on_demand_s) / self.step_s - ROUNDING) <= steps


def is_at_work(lease: Lease | None) -> bool:
    """Whether the command runs on it, as far as is known: not while it pulls, sets up or restores."""
    if lease is None or lease.observed.running_since is None or lease.orders.role not in (Role.RUN, Role.SAVE_AND_STOP):
        return False
    return lease.agent.state in AT_WORK


def measure_pressure(job: Job, now: datetime, params: Params) -> Pressure:
    remaining = work_left(job, job.main.gpu, job.main.num_gpus) if job.main else work_left_anywhere(job)
    loss_s = params.timing.tick_lag_s + params.budget.detect_s + restart_s(job, params)
    loss = timedelta(seconds=loss_s) + job.spec.checkpoint_interval
    if job.spec.deadline is None or remaining is None:
        work_s = params.deadline.horizon_s if remaining is None else remaining.total_seconds()
        return Pressure(None, loss, None, work_s=work_s, upper_work_s=work_s, step_s=params.timing.tick_lag_s)
    held = _error(job, remaining, params)
    trust, by_bar = weigh_recognised(job, remaining, params.deadline)
    remaining += max(by_bar - remaining, timedelta(0)) * trust
    upper = remaining + held * (1 - trust) + min(remaining * params.deadline.pace_error, held) * trust
    restart = timedelta(0) if is_at_work(job.main) else timedelta(seconds=restart_s(job, params))
    slack = job.spec.deadline - now - upper - restart
    verdict = Verdict.TIGHT if slack < loss else Verdict.FINE
    if job.spec.deadline - now < remaining + restart:
        verdict = Verdict.WILL_MISS
    return Pressure(
        slack,
        loss,
        verdict,
        is_past=now >= job.spec.deadline,
        left_s=(job.spec.deadline - now).total_seconds(),
        work_s=max(remaining, upper / 2).total_seconds(),
        upper_work_s=upper.total_seconds(),
        to_on_demand_s=restart_s(job, params) + params.deadline.on_demand_margin_s,
        at_risk_s=params.budget.detect_s + job.spec.checkpoint_interval.total_seconds(),
        step_s=params.timing.tick_lag_s,
    )


def weigh_recognised(job: Job, remaining: timedelta, numbers: Deadline) -> tuple[float, timedelta]:
    """How far recognised progress is trusted, 0 to below 1, and the work that it says is left on this machine.

    ``remaining``: by the estimate, on the same machine. Nothing is trusted while the command does not run, beside the
    job's own word, of a bar that is full, and before its pace was seen.
    """
    main = job.main
    told = main.agent.readings.recognised if main is not None and main.agent.readings is not None else None
    if told is None or job.progress is not None or not is_at_work(main):
        return 0.0, timedelta(0)
    if not told.whole_s or told.left_s is None:
        return 0.0, timedelta(0)
    shorter, longer = sorted((told.whole_s, (job.work_done + remaining).total_seconds()))
    seen = min(told.seen / numbers.recognised_known_at, 1.0)
    trust = numbers.recognised_trust * told.confidence * seen * shorter / longer
    return trust, timedelta(seconds=told.left_s)


def _error(job: Job, remaining: timedelta, params: Params) -> timedelta:
    """How much longer than ``remaining`` it may take, as far as time is held for it.

    Work done says nothing of an estimate's error, the job's own pace does. Of the slack that there was at first only a
    share is held for an error: where the worst case would take all of it, on-demand capacity from the first moment on
    would be the only answer to a case that hardly ever comes.
    """
    numbers = params.deadline
    estimate, left = job.spec.work_estimate, job.remaining_work
    pace_trust = _pace_trust(job, numbers)
    if pace_trust is not None:
        return _held(job, remaining * left_longer_by(job, numbers), params, job.work_done + remaining)
    worst = longer_by(job, numbers)
    if job.progress is not None or estimate is None or not left:
        more = (estimate if estimate and not left else remaining) * worst
        # Once the estimate is used up, it is unknown how little is left.
        return more if not left else _held_for_estimate(job, more, params, estimate)
    return _held_for_estimate(job, estimate * (remaining / left) * worst, params, estimate)


def longer_by(job: Job, numbers: Deadline) -> float:
    """The share of the estimate by which the work may be longer: what the user says, or what is assumed."""
    estimate, at_most = job.spec.work_estimate, job.spec.work_at_most
    if not estimate or at_most is None:
        return numbers.estimate_error
    return max(at_most / estimate - 1.0, 0.0)


def left_longer_by(job: Job, numbers: Deadline) -> float:
    """The share of what is left by which it may be longer or shorter, 1 at the most.

    The less is left, the more the whole estimate's error is of it, until the job's own pace replaces the estimate.
    """
    pace_trust = _pace_trust(job, numbers)
    if pace_trust is None:
        estimate, left = job.spec.work_estimate, job.remaining_work
        return min(longer_by(job, numbers) * (estimate / left if estimate and left else 1.0), 1.0)
    share = pace_trust * numbers.pace_error + (1 - pace_trust) * numbers.estimate_error
    return max(share, numbers.pace_error)


def _pace_trust(job: Job, numbers: Deadline) -> float | None:
    """How far the job's own pace on the GPUs that it runs on replaces the estimate, 0 to 1; None: it shows none."""
    if job.progress is None or job.progress <= 0 or not job.paces:
        return None
    main = job.main
    key = job.paces[-1][0] if main is None else pace_key(main.gpu, main.num_gpus)
    if key not in dict(job.paces):
        return None
    return min(float(job.progress) / numbers.pace_known_at, 1.0)


def _held(job: Job, more: timedelta, params: Params, whole: timedelta | None) -> timedelta:
    """So much of it as the first slack allows. ``whole``: all of the work, done and to do."""
    setup = timedelta(seconds=restart_s(job, params))
    if job.spec.deadline is None or whole is None:
        return more
    first_slack = job.spec.deadline - job.submitted_at - whole - setup
    return min(more, max(first_slack, timedelta(0)) * params.deadline.held_share)


def _held_for_estimate(job: Job, more: timedelta, params: Params, whole: timedelta | None) -> timedelta:
    """The same where nothing is known of the work but the estimate, and nothing of how wrong that may be.

    A user's deadline leaves some time besides the work: no longer work than that is assumed.
    """
    held = _held(job, more, params, whole)
    if job.spec.deadline is None or whole is None or job.spec.work_at_most is not None:
        return held
    longest = (job.spec.deadline - job.submitted_at) / params.deadline.least_stretch
    return min(held, max(longest - whole, timedelta(0)))
