"""A run that fails soon after a restore may have been given a torn checkpoint: the next one gets the one before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from autopilot.domain import events as e
from autopilot.domain.job import Checkpoint, Job
from autopilot.engine.checkpoint_retention import set_aside_newer
from autopilot.engine.event_log import EventLog
from autopilot.ports.store import UnitOfWork

SOON = timedelta(minutes=5)
"""Of work. What is torn fails where it is loaded, before the first step. What fails later has another reason more
often, and going back would cost the work since. The agent goes by the same on its own clock."""


async def step_back(uow: UnitOfWork, event_log: EventLog, now: datetime) -> None:
    """Set aside what a run began from that has failed just now, and what it has saved at its end."""
    for event in event_log.exits:
        job = event_log.job
        if not _may_be_blamed(job, event):
            continue
        known = [each for each in await uow.checkpoints.list_by_job(job.id) if not each.is_set_aside]
        began_from = next((each for each in known if each.run_epoch < event.run_epoch), None)
        if began_from is None or not _failed_soon(job, event, began_from, known):
            continue
        chosen = next((each for each in known if each.order < began_from.order), None)
        if chosen is None and not began_from.is_suspect:
            chosen = began_from  # there is none before it
        event_log.apply(e.CheckpointChosen(await set_aside_newer(uow, known, chosen, "run", now), now))


def _may_be_blamed(job: Job, event: e.RunExited) -> bool:
    """An exit of the present run that no machine and no preparation is to blame for, of a job that goes on."""
    lease = next((lease for lease in job.leases if lease.id == event.lease_id), None)
    is_of_machine = event.is_of_host or lease is None or lease.agent.is_blamed
    is_present = event.run_epoch == job.run_epoch
    return bool(event.exit_code and event.is_of_command and is_present and job.status.wants_capacity) and (
        not is_of_machine
    )


def _failed_soon(job: Job, event: e.RunExited, began_from: Checkpoint, known: Sequence[Checkpoint]) -> bool:
    """Before it had saved anything, and within some minutes of work."""
    if event.has_saved is None:  # an agent of an older version says neither
        has_saved = any(each.run_epoch == event.run_epoch for each in known)
    else:
        has_saved = event.has_saved or event.began_from != began_from.age
    return not has_saved and job.work_done - began_from.work_done < SOON
