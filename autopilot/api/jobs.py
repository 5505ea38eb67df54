"""What the API can be asked about jobs, and to do with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from autopilot import render
from autopilot.answers import jobs as answers
from autopilot.answers.models.jobs import ListQuery
from autopilot.answers.money import ItemizedReceipt
from autopilot.api.access import check_total
from autopilot.api.code import CodeService
from autopilot.api.confirmations import PlanBook
from autopilot.api.exec import ExecService
from autopilot.api.from_store import StoreReturns, refuse_return
from autopilot.api.logs import LogReader
from autopilot.api.masking import ReadSecrets
from autopilot.api.once import Once
from autopilot.api.pages import select_fields
from autopilot.api.schedules import ScheduleService
from autopilot.api.ssh import SshService
from autopilot.api.submissions import ParseJob, Submissions
from autopilot.api.tasks import TaskService, refuse_task
from autopilot.books.finding import find_job, no_such_job, refuse_array
from autopilot.books.job_life import read_decisions, read_life
from autopilot.books.owners import find_owner
from autopilot.books.periods import instant
from autopilot.books.receipt import read_receipt
from autopilot.domain import events as e
from autopilot.domain.array import read_tasks, split_task
from autopilot.domain.errors import UserError
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Token, is_of_token
from autopilot.engine.checkpoint_retention import set_aside_newer
from autopilot.engine.engine import Engine
from autopilot.engine.event_log import EventLog
from autopilot.engine.outstanding import Moment, read_moment
from autopilot.mailbox.checkpoints import kept_outputs
from autopilot.mailbox.keys import code_key
from autopilot.mailbox.orders import URL_VALID_FOR
from autopilot.planning.changes import ChangeSpec, check_paid, is_looser, is_tighter
from autopilot.planning.prospects import Unlikely
from autopilot.planning.wider import widen
from autopilot.ports.blobs import BlobStore
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import Store, StoreUnavailable, UnitOfWork

log = structlog.get_logger(__name__)

MAY_GO_BACK = (JobStatus.PARKED, JobStatus.PENDING, JobStatus.STARTING, JobStatus.RECOVERING)
"""No machine works on what the newest checkpoint holds."""

DECISIONS_PER_ANSWER = 1000


class JobService:
    def __init__(
        self,
        engine: Engine,
        store: Store,
        blobs: BlobStore,
        clock: Clock,
        ids: Ids,
        parse: ParseJob,
        change_spec: ChangeSpec,
        wake: Callable[[], None],
        code: CodeService,
        read_secrets: ReadSecrets = lambda _: ([], []),
    ) -> None:
        """``read_secrets``: what is masked in the output of a job."""
        self.code = code
        self.logs = LogReader(store, blobs, read_secrets)
        self.plans = PlanBook(clock, ids)
        self.submissions = Submissions(engine, store, clock, ids, parse, wake, code, self.plans)
        self.schedules = ScheduleService(self.submissions, store, clock, self.plans, wake)
        self.tasks = TaskService(store, clock, ids, wake, self.render, self._read_moment)
        self.execs = ExecService(engine, store, clock, ids, find_job)
        self.ssh = SshService(engine, store, find_job)
        self.returns = StoreReturns(engine, store, clock)
        self._engine = engine
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._ids = ids
        self._change_spec = change_spec
        self._wake = wake

    async def overview(self, asked: ListQuery, owner: int | None = None) -> render.Json:
        """A page of all jobs, or of that owner's. Raises ``UserError``."""
        now = self._clock.now()
        since = instant(asked.since, "since", now, None)
        async with self._store.snapshot() as uow:
            if asked.owner:
                wanted = await find_owner(uow, asked.owner)
                if owner not in (None, wanted):
                    return {"jobs": [], "next": None}
                owner = wanted
            if asked.array:
                return await self._list_tasks(uow, asked, owner)
            last = await _find_last(uow, asked.after, owner)
            moment = await self._read_moment(uow)
            if asked.all:
                jobs = await uow.jobs.list_newest(limit=asked.limit + 1, owner=owner, before=last, since=since)
                moment = await self._read_moment(uow, *(job for job in jobs if job.is_array))
            else:
                shown = (job for job in moment.jobs if asked.tasks or job.array_id is None)
                jobs = tuple(job for job in shown if _is_on_page(job, owner, last, since))
            page = jobs[: asked.limit]
            return {
                "jobs": select_fields((self.render(job, moment) for job in page), asked.fields, answers.Job),
                "next": page[-1].id if len(jobs) > len(page) else None,
            }

    async def _list_tasks(self, uow: UnitOfWork, asked: ListQuery, owner: int | None) -> render.Json:
        array = await uow.jobs.find(asked.array, owner=owner)
        if array is None:
            raise no_such_job(asked.array)
        if array.spec.array is None:
            raise UserError(f"job {array.spec.name} has no tasks", hint="it is no array")
        after = read_tasks(asked.after) if asked.after else range(-1, 0)
        if after is None:
            raise UserError("after: this is not the end of a page", hint="pass next of the previous page")
        found = await uow.jobs.list_tasks(array.id, first=after[-1] + 1, limit=asked.limit + 1)
        page, moment = found[: asked.limit], await self._read_moment(uow)
        return {
            "jobs": select_fields((self.render(job, moment) for job in page), asked.fields, answers.Job),
            "next": str(page[-1].task) if len(found) > len(page) else None,
        }

    async def show(self, reference: str) -> render.Json:
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            moment = await self._read_moment(uow, job)
            return {"job": self.render(job, moment)} | await read_life(uow, job, moment)

    async def receipt(self, reference: str) -> ItemizedReceipt:
        async with self._store.snapshot() as uow:
            return await read_receipt(uow, await find_job(uow, reference), self._clock.now())

    async def why(self, reference: str, *, limit: int) -> render.Json:
        """The job's state, and its newest decisions, each with what the market answered."""
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            decisions = await read_decisions(uow, job.id, limit=min(limit, DECISIONS_PER_ANSWER))
            answer = self.render(job, await self._read_moment(uow, job))
        if (wait := self._engine.waits.of(job)) is not None:
            added = await widen(self._engine, job, wait, self._clock.now())
            if added:
                answer["waiting"]["notes"] += map(render.note, added)
        return {"job": answer, "decisions": decisions}

    async def outputs(self, reference: str) -> render.Json:
        """The parts of what the job has left, in order, each with an address from which it can be read for an hour."""
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
        refuse_array(job, "outputs")
        manifest = await kept_outputs(self._blobs, job.id) if job.status is JobStatus.SUCCEEDED else None
        if manifest is None:
            reason = "has no outputs" if job.status is JobStatus.SUCCEEDED else f"is {job.status}"
            hint = "name them in [outputs] of the job file; they are there once the job has succeeded"
            raise UserError(f"job {job.spec.name} {reason}", hint=hint)
        keys = manifest.part_keys(job.id, "")
        return {
            "name": job.spec.name,
            "parts": [
                {
                    "key": part.key,
                    "size": part.size,
                    "sha256": part.sha256,
                    "url": self._blobs.sign_get(key, URL_VALID_FOR),
                }
                for key, part in zip(keys, manifest.parts, strict=True)
            ],
        }

    async def change(
        self,
        reference: str,
        wish: Mapping[str, str],
        *,
        least_probability: float = LEAST_PROBABILITY,
        token: Token | None = None,
        plan_id: str = "",
        once: Once | None = None,
    ) -> render.Json:
        """Give a job that lives other limits. Those that leave it less are checked as a submit is.

        ``token`` and ``plan_id`` as for a submit; only what leaves the job more is asked about.
        Raises ``UserError``, ``OverBudget``, ``Unlikely`` and ``ConfirmFirst``; nothing is changed then.
        """
        now = self._clock.now()
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            moment = await self._read_moment(uow)
        _refuse_if_over(job)
        refuse_task(job)
        changed = replace(job, spec=self._change_spec(job.spec, wish, now))
        check_total(changed.spec, is_of_token(job.owner))
        plan = None
        if is_tighter(job.spec, changed.spec):
            money = moment.money_of(job)
            check_paid(changed, money)
            plan = await self.submissions.plan(changed, now, least_probability, money.posted + money.accrued)
            if plan.answer["refusal"] is not None:
                raise Unlikely(plan.answer["refusal"], hint="; ".join(plan.answer["ways_out"]))
        what = f"change {', '.join(f'{key}={value}' for key, value in sorted(wish.items()))}"
        asks = token if is_looser(job.spec, changed.spec) else None
        with self.plans.asking(asks, what, changed.spec, [job.id, dict(wish)], plan_id):
            async with self._store.transaction() as uow:
                job = await find_job(uow, job.id)
                _refuse_if_over(job)
                event_log = EventLog(job)
                event_log.apply(e.SpecChanged(self._change_spec(job.spec, wish, now), self._clock.now()))
                if job.is_array:
                    await self.tasks.spread_change(uow, event_log, self._clock.now())
                await uow.jobs.save(event_log.job)
                await uow.events.add(event_log.records)
                if plan is None or plan.forecast is None or job.waits_for_jobs:
                    await uow.forecasts.forget(job.id)  # it was reckoned with the former limits
                else:
                    await uow.forecasts.save(plan.forecast)
                told = None if plan is None else plan.answer
                answer = {"job": self.render(event_log.job, await self._read_moment(uow)), "plan": told}
                if once is not None:
                    await once.keep(uow, 200, answer)
        self._wake()
        return answer

    async def stop(self, reference: str) -> render.Json:
        """Save the job's work, give its machines back and park it until it is resumed."""
        return await self._move(reference, JobStatus.STOPPING, Reason.USER_STOPPED)

    async def code_of(self, reference: str, uid: int) -> render.Json:
        """The copy of code that the job runs: its name, and the addresses of index and parts for an hour.

        Raises ``UserError`` unless ``uid`` is that of the job's owner, of this daemon or of root.
        """
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
        if not job.code.sha256:
            raise UserError(f"job {job.spec.name} has no code of its own", hint="[code] in the job file uploads it")
        if uid not in (job.owner, os.getuid(), 0):
            raise UserError(f"the code of job {job.spec.name} is another user's", hint="ask the user who submitted it")
        keys = [code_key(job.code.copy_id, i) for i in range(job.code.part_count + 1)]
        urls = [self._blobs.sign_get(key, URL_VALID_FOR) for key in keys]
        return {"name": job.spec.name, "code": render.code(job.code), "urls": urls}

    async def cancel(self, reference: str) -> tuple[render.Json, str]:
        """The job, and why the ledger could not take the cancel, empty if it did.

        It holds all the same: its machines are destroyed, and it is recorded as soon as it can be. Of a job that is
        over it gives back the machine that is held.
        Raises ``UserError``, and ``StoreUnavailable`` where the ledger cannot even be read.
        """
        try:
            if split_task(reference)[1]:
                return await self.tasks.cancel(reference), ""
            async with self._store.snapshot() as uow:
                is_held = (await find_job(uow, reference)).on_hold is not None
            if is_held:
                return await self.release(reference), ""
            return await self._move(reference, JobStatus.CANCELLING, Reason.USER_CANCELLED), ""
        except StoreUnavailable as problem:
            async with self._store.snapshot() as uow:
                job = await find_job(uow, reference)
                answer = self.render(job, await self._read_moment(uow))
            self._engine.unrecorded_cancels.add(job.id)
            self._wake()
            log.warning("cancel.unrecorded", job=job.id, reason=str(problem))
            return answer, str(problem)

    async def resume_from_store(self, reference: str, once: Once | None = None) -> render.Json:
        """Let a job go on from what the store holds of it, in one of the next ticks. ``once`` as for a submit.

        Raises ``UserError``."""
        async with self._store.transaction() as uow:
            job = await find_job(uow, reference)
            refuse_return(job)
            event = e.StatusSet(JobStatus.PARKED, Reason.FROM_STORE, self._clock.now())
            answer = {"job": await self._apply(uow, job, event)}
            if once is not None:
                await once.keep(uow, 200, answer)
        self._wake()
        return answer

    async def look_into_store(self, reference: str) -> render.Json:
        """What ``resume_from_store`` would take, null while it is read. Changes nothing. Raises ``UserError``."""
        found = await self.returns.look(reference)
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            return {"job": self.render(job, await self._read_moment(uow, job)), "store": found}

    async def resume(self, reference: str, from_checkpoint: str = "", once: Once | None = None) -> render.Json:
        """Resume a parked job. ``from_checkpoint``: ``12``, or ``LEASE.12`` where two machines wrote one; newer
        ones are set aside. ``once`` as for a submit. Raises ``UserError``."""
        async with self._store.transaction() as uow:
            job = await find_job(uow, reference)
            if from_checkpoint:
                job = await self._go_back(uow, job, from_checkpoint)
            if from_checkpoint and job.status is not JobStatus.PARKED:
                answer = self.render(job, await self._read_moment(uow))
            else:
                answer = await self._set_status(uow, job, JobStatus.PENDING, Reason.SUBMITTED)
            if once is not None:
                await once.keep(uow, 200, {"job": answer})
        self._wake()
        return {"job": answer}

    async def _go_back(self, uow: UnitOfWork, job: Job, chosen: str) -> Job:
        if job.status not in MAY_GO_BACK:
            hint = "it can be told to while it is parked, waits for a machine or gets one ready"
            raise UserError(f"job {job.spec.name} is {job.status} and cannot return to a checkpoint", hint=hint)
        known = await uow.checkpoints.list_by_job(job.id)
        await set_aside_newer(uow, known, _chosen(known, chosen), "user", self._clock.now())
        return await find_job(uow, job.id)

    async def release(self, reference: str) -> render.Json:
        """Release the held machine of a job that has failed. Raises ``UserError``."""
        async with self._store.transaction() as uow:
            job = await find_job(uow, reference)
            held = job.on_hold
            if held is None:
                hint = "[debug] hold in the job file keeps the machine of the last failed attempt"
                raise UserError(f"no machine of job {job.spec.name} is held", hint=hint)
            answer = await self._apply(uow, job, e.ReleaseRequested(held.id, Reason.USER_RELEASED, self._clock.now()))
        self._wake()
        return answer

    async def _move(self, reference: str, status: JobStatus, reason: Reason) -> render.Json:
        async with self._store.transaction() as uow:
            answer = await self._set_status(uow, await find_job(uow, reference), status, reason)
        self._wake()
        return answer

    async def _set_status(self, uow: UnitOfWork, job: Job, status: JobStatus, reason: Reason) -> render.Json:
        _refuse_if_over(job)
        if status is JobStatus.STOPPING and not job.status.wants_capacity:
            hint = "autopilot resume resumes it" if job.status is JobStatus.PARKED else ""
            raise UserError(f"job {job.spec.name} is {job.status} already", hint=hint)
        if status is JobStatus.PENDING and job.status is not JobStatus.PARKED:
            hint = "only a parked job can be resumed"
            raise UserError(f"job {job.spec.name} is {job.status}, not parked", hint=hint)
        return await self._apply(uow, job, e.StatusSet(status, reason, self._clock.now()))

    async def _apply(self, uow: UnitOfWork, job: Job, event: e.Event) -> render.Json:
        event_log = EventLog(job)
        event_log.apply(event)
        await uow.jobs.save(event_log.job)
        await uow.events.add(event_log.records)
        return self.render(event_log.job, await self._read_moment(uow, event_log.job))

    async def _read_moment(self, uow: UnitOfWork, *others: Job) -> Moment:
        return await read_moment(uow, self._clock.now(), self._engine.config.params, others)

    def render(self, job: Job, moment: Moment) -> render.Json:
        total = moment.money_of(job)
        wait = self._engine.waits.of(job)
        counts = moment.tasks.get(job.id, render.NO_TASKS)
        answer = render.job(job, self._clock.now(), self._engine.config.params, total, wait, moment.titles, counts)
        if self._engine.failing_since is not None:
            # It is of a moment that may be long past: the market is not read, and nothing is decided.
            answer |= {"slack_s": None, "verdict": None}
        if job.waits_for_jobs:
            return answer
        if wait is not None and wait.reason is Reason.NOT_CERTIFIED:
            answer["reason"] = wait.reason
        elif job.is_array:
            return answer
        elif job.status is JobStatus.PENDING and not any(w.last.known for w in self._engine.watches.values()):
            answer["reason"] = Reason.MARKET_UNKNOWN
        elif job.status is JobStatus.PENDING and wait is not None:
            answer["reason"] = wait.reason
        return answer


async def _find_last(uow: UnitOfWork, job_id: str, owner: int | None) -> tuple[datetime, str] | None:
    """What the page before ended with. Raises ``UserError``."""
    if not job_id:
        return None
    last = await uow.jobs.find(job_id, owner=owner)
    if last is None or last.id != job_id:
        raise UserError("after: this is not the end of a page", hint="pass next of the previous page")
    return last.submitted_at, last.id


def _is_on_page(job: Job, owner: int | None, last: tuple[datetime, str] | None, since: datetime | None) -> bool:
    """Whether an open job is on the page, oldest first. A job that only releases its machines is not open."""
    is_shown = owner in (None, job.owner) and (job.on_hold or not job.status.is_final)
    is_after = last is None or (job.submitted_at, job.id) > last
    return bool(is_shown and is_after and (since is None or job.submitted_at >= since))


def _refuse_if_over(job: Job) -> None:
    if job.status.is_final:
        raise UserError(f"job {job.spec.name} is over: {job.status}", hint="autopilot ps -a lists all jobs")


def _chosen(known: Sequence[Checkpoint], name: str) -> Checkpoint:
    """Raises ``UserError`` unless exactly one is called that."""
    found = [each for each in known if name in (str(each.number), f"{each.lease_id}.{each.number}")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{each.lease_id}.{each.number}" for each in found or known) or "none"
    raise UserError(
        f"{'two machines wrote' if found else 'there is no'} checkpoint {name}", hint=f"available checkpoints: {names}"
    )
