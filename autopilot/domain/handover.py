"""A machine that goes from one task of an array to the next, and what its failures say of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from autopilot.domain import events as e
from autopilot.domain.agent_state import AgentState
from autopilot.domain.job import Job
from autopilot.domain.lease import AgentReport, Lease, LeaseOrders, PaceAnchor, Role, Slot, TaskUse

TOO_SOON = timedelta(minutes=1)
"""A task that fails within this of its start may have met a machine on which every task fails."""


def inherit(job: Job, lease: Lease, at: datetime) -> Job:
    """The task with the machine that another one has left.

    Its run epoch is above both tasks' so far: nothing that the machine says of the other one is taken for a word of it.
    """
    epoch = max(job.run_epoch, lease.orders.run_epoch) + 1
    taken = replace(
        lease,
        job_id=job.id,
        slot=Slot.MAIN,
        orders=LeaseOrders(role=Role.RUN, run_epoch=epoch),
        agent=replace(before_run(lease.agent, at), last_checkpoint=None, log_count=0),
        anchor=PaceAnchor(),
        uses=(*lease.uses, TaskUse(job.id, at)),
    )
    return replace(job, run_epoch=epoch, launches=job.launches + 1, leases=(*job.leases, taken))


def before_run(agent: AgentReport, at: datetime) -> AgentReport:
    """The state of a machine that is ordered to run: it prepares until its agent reports the new run."""
    return replace(
        agent,
        state=AgentState.WAITING,
        preparing_since=at,
        working_since=None,
        has_saved=False,
        exit_code=None,
        failed_by_host=False,
        is_blamed=False,
        stalled_since=None,
    )


def with_first_use(job: Job, before: Lease, after: Lease, event: e.Event) -> Lease:
    """From when the machine of a task is first heard its time is the task's."""
    if not isinstance(event, e.HeartbeatSeen) or job.array_id is None or after.uses:
        return after
    # One that was heard by an earlier version of this program was heard before now.
    was_heard = before.agent.boot > 0
    heard_at = before.observed.running_since or before.acquired_at if was_heard else None
    return replace(after, uses=(TaskUse(job.id, heard_at or event.at),))


def end_use(lease: Lease, at: datetime | None) -> Lease:
    """``at``: when the newest task's run ended; None: it runs again."""
    if not lease.uses:
        return lease
    return replace(lease, uses=(*lease.uses[:-1], replace(lease.uses[-1], ended_at=at)))


def speaks_of_machine(job: Job, lease: Lease, at: datetime) -> bool:
    """Whether the failure of a task's run is put down to its machine: it came too soon, or after that of another task.

    Once only of each task: one that fails so on a second machine fails by itself.
    """
    if job.array_id is None or job.excused:
        return False
    began_at = lease.agent.working_since or (lease.uses[-1].ordered_at if lease.uses else at)
    return at - began_at <= TOO_SOON or has_failed_another(lease)


def has_failed_another(lease: Lease) -> bool:
    """Whether the run before, which was another task's, failed on it. ``lease``: before the present run's end."""
    return lease.agent.failures > 0 and len(lease.uses) > 1 and lease.uses[-2].job_id != lease.uses[-1].job_id
