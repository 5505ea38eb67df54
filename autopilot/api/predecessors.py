"""The jobs that a submitted job waits for: from what its owner wrote to ids, or one clear refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter

from autopilot.domain.after import ENDS, After, On, paired_with, waited_for
from autopilot.domain.errors import UserError
from autopilot.domain.inputs import LeftInput, left_inputs, may_hold, with_ids
from autopilot.domain.job import Job
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.engine.predecessors import ended_otherwise, judge
from autopilot.ports.store import EventRecord, UnitOfWork
from autopilot.ports.store.jobs import JobTitle


@dataclass(frozen=True, slots=True)
class Resolved:
    job: Job
    records: Sequence[EventRecord] = ()
    """Its events so far."""


async def resolve(uow: UnitOfWork, submitted: Sequence[Job], now: datetime) -> list[Resolved]:
    """Each with ids in place of names, and either waiting or free to begin. Names mean jobs of the same submit first,
    then jobs of the same owner.

    Raises ``UserError``: for an unknown name, for jobs that wait for one another, and for a predecessor that has ended
    otherwise than asked.
    """
    with_ids = [await _with_ids(uow, job, submitted) for job in submitted]
    _refuse_cycles(with_ids)
    named = {after.job for job in with_ids for after in job.spec.after}
    known = dict(await uow.jobs.list_titles(named))
    known |= {job.id: JobTitle.of(job) for job in with_ids}
    return [_begin_or_wait(job, known, now) for job in with_ids]


def tell_waits(job: Job) -> list[str]:
    """Notes of a plan. ``job``: as it would be accepted."""
    followed = len(paired_with(job.spec.after))
    pairs = [
        f"each task begins once the task of its number of {'the other array' if followed == 1 else 'the others'} has"
        " succeeded; costs and times here are as if all could begin now"
    ]
    return _tell_whole(job) + (pairs if followed else [])


def _tell_whole(job: Job) -> list[str]:
    if not job.waits_for_jobs:
        return []
    count = len(waited_for(job.spec.after))
    others = "another job" if count == 1 else f"{count} other jobs"
    due = ", and the deadline counts from then" if job.spec.due_within else ""
    return [f"it waits for {others} and rents nothing before; costs and times here are as if it began now{due}"]


async def _with_ids(uow: UnitOfWork, job: Job, submitted: Sequence[Job]) -> Job:
    found: dict[str, Job] = {}
    after: list[After] = []
    for each in job.spec.after:
        other = found[each.job] = await _find(uow, job, each.job, submitted)
        if other.id in [known.job for known in after]:
            raise UserError(f"job {job.spec.name}: after names one job twice, as {each.job!r} too", hint="keep one")
        if each.on is On.SAME_TASK:
            _refuse_unequal(job, other)
        after.append(replace(each, job=other.id))
    for left in left_inputs(job.spec.inputs):
        _refuse_never_left(job, left, found[left.job])
    inputs = with_ids(job.spec.inputs, {name: other.id for name, other in found.items()})
    return replace(job, spec=replace(job.spec, after=tuple(after), inputs=inputs))


def _refuse_unequal(job: Job, other: Job) -> None:
    own, followed = job.spec.array, other.spec.array
    if own is None or followed is None:
        raise UserError(
            f'job {job.spec.name}: on = "{On.SAME_TASK}" is for two arrays, and {other.spec.name} is not an array',
            hint=f'after = ["{other.spec.name}"] waits for its success',
        )
    if own.count != followed.count:
        raise UserError(
            f"job {job.spec.name} has {own.count:,} tasks and {other.spec.name}, which it follows task by task,"
            f" {followed.count:,}",
            hint=f'give both the same count, or wait for the whole array: after = ["{other.spec.name}"]',
        )


def _refuse_never_left(job: Job, left: LeftInput, other: Job) -> None:
    name, outputs = other.spec.name, other.spec.outputs
    if other.spec.array is not None and left.job not in paired_with(job.spec.after):
        raise UserError(
            f"job {job.spec.name}: inputs.{left.path}: {name} is an array, and each of its tasks has its own outputs",
            hint=f'an array of as many tasks can use them: after = [{{ job = "{name}", on = "same task" }}]',
        )
    if not may_hold(outputs, left.left_at):
        kept = "keeps nothing: it has no [outputs]" if not outputs else f"keeps {', '.join(outputs)}"
        raise UserError(
            f"job {job.spec.name}: inputs.{left.path}: {name} has no output at {left.left_at!r}; it {kept}",
            hint=f"name a path in [outputs] of {name}",
        )


async def _find(uow: UnitOfWork, job: Job, reference: str, submitted: Sequence[Job]) -> Job:
    beside = [each for each in submitted if each.spec.name == reference]
    if len(beside) > 1:
        hint = "give them different names"
        raise UserError(f"job {job.spec.name}: after {reference!r}: several of these jobs have that name", hint=hint)
    if beside:
        return beside[0]
    found = await uow.jobs.find(reference, owner=job.owner)
    if found is None:
        hint = "name a job of yours by id or name, or submit both at once: autopilot submit FIRST.toml THEN.toml"
        raise UserError(f"job {job.spec.name}: after {reference!r}: you have no such job", hint=hint)
    return found


def _refuse_cycles(jobs: Sequence[Job]) -> None:
    names = {job.id: job.spec.name for job in jobs}
    try:
        TopologicalSorter({job.id: [after.job for after in job.spec.after] for job in jobs}).prepare()
    except CycleError as problem:
        circle = " → ".join(names[job_id] for job_id in problem.args[1])
        hint = "take one of these out of after"
        raise UserError(f"these jobs wait for one another, so none could ever start: {circle}", hint=hint) from None


def _begin_or_wait(job: Job, known: dict[str, JobTitle], now: datetime) -> Resolved:
    if not waited_for(job.spec.after):
        return Resolved(job)
    waiting = replace(job, reason=Reason.WAITING_FOR_JOBS)
    wrong = ended_otherwise(waiting, known)
    if wrong is not None:
        other = known[wrong.job]
        raise UserError(
            f"job {job.spec.name} waits until job {other.name} {ENDS[wrong.on]}, and that one ({wrong.job}) is"
            f" {other.status} already",
            hint="submit that job again, or remove it from after",
        )
    event_log = EventLog(waiting)
    event = judge(waiting, known, now)  # whether a job has left what another takes, a tick looks up in the store
    if event is not None:
        event_log.apply(event)
    return Resolved(event_log.job, event_log.records)
