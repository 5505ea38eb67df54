"""How fast a job goes, learnt from its own progress: its pace on a kind of GPU, and a machine that falls behind it.

The pace of late is measured over windows that end with an increase, so that it does not matter how coarse progress is.
Two slow ones in a row make a slow machine: a single one may be a pause of the command. Pace belongs to the machine:
while it is slow it teaches nothing of the kind. Where the next machine is as slow, it is the job that has changed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.agent_state import AgentState
from autopilot.domain.events import HeartbeatSeen
from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease, PaceAnchor

OBSERVATION_LASTS = timedelta(seconds=90)
"""So long after a list that showed a machine the work done on it counts as known."""
PACE_NEEDS = timedelta(minutes=5)
"""Progress over less work than this says nothing about pace."""
WINDOW_NEEDS = timedelta(minutes=3)
"""And over less than this nothing about a machine that slows: twice it, and some, is within any two intervals."""
SLOW_SHARE = Decimal("0.5")
"""Of the job's own pace. Machines of one kind differ by far less, and a move costs some minutes."""
PACE_UNIT = Decimal("0.000001")


def learn_pace(job: Job, before: Lease, after: Lease, event: HeartbeatSeen) -> tuple[Job, Lease]:
    """How fast the job goes on these GPUs: progress gained over work done, since this boot's first word of it.

    Only while the market shows the machine: without that progress goes on, and the work that made it is not counted.
    """
    progress = event.progress
    if event.agent_state is not AgentState.RUNNING or progress is None:
        return job, after
    if before.observed.seen_at is None or event.at - before.observed.seen_at > OBSERVATION_LASTS:
        return job, after
    if after.anchor.work is None or after.agent.boot != before.agent.boot:
        return job, replace(after, anchor=PaceAnchor(job.work_done, progress, job.work_done, progress))
    job, after = _judge_window(job, after, progress)
    pace = _pace(job, after.anchor.work, after.anchor.progress, progress, PACE_NEEDS)
    if pace is None or after.anchor.slow_windows:
        return job, after
    return _with_pace(job, pace_key(after.gpu, after.num_gpus), pace), after


def note_slow_end(job: Job, before: Lease, after: Lease) -> Job:
    """A slow machine is left: if the next one is as slow, it is the job."""
    key = pace_key(after.gpu, after.num_gpus)
    is_left = before.is_wanted and not after.is_wanted and after.anchor.is_slow
    return replace(job, slow_on=(*job.slow_on, key)) if is_left and key not in job.slow_on else job


def slow_share(job: Job, lease: Lease) -> Decimal | None:
    """0..1: a slow machine's pace of late beside the job's own on such GPUs; None: it is not slow."""
    best, recent = dict(job.paces).get(pace_key(lease.gpu, lease.num_gpus)), lease.anchor.recent_pace
    if not lease.anchor.is_slow or not isinstance(best, Decimal) or not best or not recent:
        return None
    return min(recent / best, Decimal(1))


def _judge_window(job: Job, lease: Lease, progress: Decimal) -> tuple[Job, Lease]:
    """Where this report ends a window: its pace, beside the job's own on such GPUs."""
    anchor, key = lease.anchor, pace_key(lease.gpu, lease.num_gpus)
    if anchor.window_work is None or anchor.window_progress is None or progress < anchor.window_progress:
        return job, replace(lease, anchor=replace(anchor, window_work=job.work_done, window_progress=progress))
    pace = _pace(job, anchor.window_work, anchor.window_progress, progress, WINDOW_NEEDS)
    if pace is None:
        return job, lease
    known = dict(job.paces).get(key)
    is_slow = isinstance(known, Decimal) and pace < known * SLOW_SHARE
    anchor = replace(
        anchor,
        window_work=job.work_done,
        window_progress=progress,
        recent_pace=pace,
        slow_windows=anchor.slow_windows + 1 if is_slow else 0,
    )
    if is_slow:  # what it does from here on is measured apart
        anchor = replace(anchor, work=job.work_done, progress=progress)
    others = tuple(slow for slow in job.slow_on if slow != key)
    if not is_slow:
        return replace(job, slow_on=others), replace(lease, anchor=anchor)
    if anchor.is_slow and key in job.slow_on:
        job = _with_pace(replace(job, slow_on=others), key, pace)
        anchor = replace(anchor, slow_windows=0)
    return job, replace(lease, anchor=anchor)


def _pace(
    job: Job, work: timedelta | None, since: Decimal | None, progress: Decimal, needs: timedelta
) -> Decimal | None:
    """Share of the job per hour; None: too little was done, or nothing gained."""
    gained = progress - (since or Decimal(0))
    if work is None or job.work_done - work < needs or gained <= 0:
        return None
    hours = Decimal(str((job.work_done - work) / timedelta(hours=1)))
    return (gained / hours).quantize(PACE_UNIT)


def _with_pace(job: Job, key: str, pace: Decimal) -> Job:
    others = tuple(known for known in job.paces if known[0] != key)
    return replace(job, paces=(*others, (key, pace)))
