"""What the API can be asked about jobs, and to do with them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import structlog

from autopilot.api import render
from autopilot.api.access import check_total
from autopilot.api.budget import account
from autopilot.api.certify import certificate_notes
from autopilot.api.changes import ChangeSpec, check_paid, is_looser, is_tighter
from autopilot.api.code import CodeService, SentCode, take
from autopilot.api.confirmations import PlanBook
from autopilot.api.exec import ExecService
from autopilot.api.finding import find_job
from autopilot.api.gpu_check import check_gpus, meanings, unfillable
from autopilot.api.job_life import read_decisions, read_life
from autopilot.api.key_hint import replace_keys
from autopilot.api.logs import LogReader
from autopilot.api.models import jobs as models
from autopilot.api.models.jobs import ListQuery
from autopilot.api.once import Once
from autopilot.api.outstanding import Moment, Money, read_moment
from autopilot.api.owners import find_owner
from autopilot.api.pages import select_fields
from autopilot.api.periods import instant
from autopilot.api.plan import JobPlan
from autopilot.api.plan import plan as make_plan
from autopilot.api.prospects import INFEASIBLE, Unlikely
from autopilot.api.same_job import hash_file, refuse_crowd, refuse_same
from autopilot.api.ssh import SshService
from autopilot.api.wider import look_wider
from autopilot.domain import events as e
from autopilot.domain.code import CodeCopy, JobCode
from autopilot.domain.errors import UserError
from autopilot.domain.job import Checkpoint, Job, JobSpec, JobStatus
from autopilot.domain.money import ZERO
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Token, is_of_token
from autopilot.engine.checkpoint_retention import set_aside_newer
from autopilot.engine.engine import Engine
from autopilot.engine.event_log import EventLog
from autopilot.mailbox.checkpoints import kept_outputs
from autopilot.mailbox.keys import code_key
from autopilot.mailbox.orders import URL_VALID_FOR
from autopilot.ports.blobs import BlobStore
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import EventRecord, Store, StoreUnavailable, UnitOfWork

log = structlog.get_logger(__name__)

ParseJob = Callable[[str, str, datetime, Token | None], JobSpec]
"""(text, source, now, token whose job it is to be) → spec; raises ``UserError``."""

MAY_GO_BACK = (JobStatus.PARKED, JobStatus.PENDING, JobStatus.STARTING, JobStatus.RECOVERING)
"""No machine works on what the newest checkpoint holds."""

DECISIONS_PER_ANSWER = 1000


_SCRIPT = re.compile(r"""\b(?:python3?|bash|sh|torchrun|accelerate launch)\s+((?![/$~-])[^\s;&|)"']+\.(?:py|sh))\b""")
"""A program by a path from the work directory, as commands name it."""


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
    ) -> None:
        self.code = code
        self.logs = LogReader(store, blobs)
        self.plans = PlanBook(clock, ids)
        self.execs = ExecService(engine, store, clock, ids, find_job)
        self.ssh = SshService(engine, store, find_job)
        self._engine = engine
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._ids = ids
        self._parse = parse
        self._change_spec = change_spec
        self._wake = wake

    def parse(self, text: str, source: str, token: Token | None = None) -> JobSpec:
        """Raises ``UserError``."""
        return self._parse(text, source, self._clock.now(), token)

    async def submit(
        self,
        text: str,
        source: str,
        *,
        dry_run: bool,
        least_probability: float = LEAST_PROBABILITY,
        owner: int,
        token: Token | None = None,
        code: SentCode | None = None,
        again: bool = False,
        plan_id: str = "",
        once: Once | None = None,
    ) -> render.Json:
        """Accept a job file; with ``dry_run`` only say what would happen.

        ``owner``: of whoever asks; ``token``: theirs, where they have one; ``code``: what they have sent, or with
        ``dry_run`` would send; ``again``: whether a second job of the same is meant; ``plan_id``: what a person has
        confirmed; ``once``: the request that is not to act twice.

        Raises ``UserError``; ``SameJobOpen``; ``ConfirmFirst``; ``SendAgain`` when the code is not there; ``Unlikely``
        where a job with a deadline would be done in time and within its budget with less than that probability, where
        the budget of one without suffices in no market, or where nothing that was ever seen has what it asks for; 0
        accepts any.
        """
        now = self._clock.now()
        self._check_markets()
        spec = await check_gpus(self._parse(text, source, now, token), self._engine)
        check_total(spec, is_of_token(owner))
        _check_code(spec, code)
        copy = await self.code.require(owner, code.sha256) if code and not dry_run else None
        taken = _code_of(code, copy)
        said = hash_file(text, taken.sha256)
        job = Job(self._ids.new(), spec, JobStatus.PENDING, Reason.SUBMITTED, now, owner=owner)
        job = replace(job, code=taken, file_sha256=said)
        plan = await self._plan(job, now, least_probability)
        planned = plan.answer
        planned["notes"] += _script_notes(spec)
        if job.spec.secrets:
            given = ", ".join(variable for variable, _ in job.spec.secrets)
            planned["notes"].append(f"whoever owns the rented host can read the job's code, data and secrets ({given})")
        if job.spec.registry is not None:
            server = job.spec.registry.server
            planned["notes"].append(f"the market, and the host that pulls the image, get the login for {server}")
        if dry_run:
            return {"job": None, "plan": planned}
        if planned["refusal"] is not None:
            raise Unlikely(planned["refusal"], hint="; ".join(planned["ways_out"]))
        answer = {"job": render.job(job, now, self._engine.config.params, Money()), "plan": planned}
        asked = [said, render.plain(spec.budget), render.plain(spec.max_rate)]
        with self.plans.asking(token, "submit", spec, asked, plan_id):
            async with self._store.transaction() as uow:
                await refuse_crowd(uow, job)
                if not again:
                    await refuse_same(uow, job)
                if copy is not None:
                    await take(uow, copy)
                await uow.jobs.save(job)
                if plan.forecast is not None:
                    await uow.forecasts.save(plan.forecast)
                await uow.events.add([EventRecord(now, "job.submitted", job.id, None, (("name", job.spec.name),))])
                if once is not None:
                    await once.keep(uow, 201, answer)
        self._wake()
        return answer

    async def _plan(self, job: Job, now: datetime, least_probability: float, spent: Decimal = ZERO) -> JobPlan:
        """Raises ``OverBudget`` and ``Unlikely``."""
        offers = await self._engine.offers(job.spec.query)
        market = self._engine.market_view(offers, None, self._clock.now())
        config = self._engine.config
        async with self._store.snapshot() as uow:
            limits = await account(uow, config.limits, now, config.params)
        plan = await asyncio.to_thread(make_plan, job, market, now, config.params, least_probability, limits, spent)
        planned = plan.answer
        if not planned["offers"] and least_probability:
            lacking = await unfillable(job.spec, self._engine, self._store, now)
            if lacking:
                planned |= {"refusal": lacking, "verdict": INFEASIBLE}
        planned["notes"] += meanings(job.spec)
        planned["notes"] += certificate_notes(self._engine, now)
        planned["notes"] += [
            f"{name} cannot be read now ({watch.last.reason}): the job waits for it"
            for name, watch in self._engine.watches.items()
            if not watch.last.known
        ]
        return plan

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
            last = await _find_last(uow, asked.after, owner)
            moment = await self._read_moment(uow)
            if asked.all:
                jobs = await uow.jobs.list_newest(limit=asked.limit + 1, owner=owner, before=last, since=since)
            else:
                jobs = tuple(job for job in moment.jobs if _is_on_page(job, owner, last, since))
            page = jobs[: asked.limit]
            return {
                "jobs": select_fields((self.render(job, moment) for job in page), asked.fields, models.Job),
                "next": page[-1].id if len(jobs) > len(page) else None,
            }

    async def show(self, reference: str) -> render.Json:
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            moment = await self._read_moment(uow)
            return {"job": self.render(job, moment)} | await read_life(uow, job, moment)

    async def why(self, reference: str, *, limit: int) -> render.Json:
        """Where the job stands, and its newest decisions, each with what the market answered."""
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            decisions = await read_decisions(uow, job.id, limit=min(limit, DECISIONS_PER_ANSWER))
            stands = self.render(job, await self._read_moment(uow))
        if (wait := self._engine.waits.of(job)) is not None and wait.found_nothing:
            stands["waiting"]["notes"] += map(render.note, await look_wider(self._engine, job, self._clock.now()))
        return {"job": stands, "decisions": decisions}

    async def outputs(self, reference: str) -> render.Json:
        """The parts of what the job has left, in order, each with an address from which it can be read for an hour."""
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
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
        changed = replace(job, spec=self._change_spec(job.spec, wish, now))
        check_total(changed.spec, is_of_token(job.owner))
        plan = None
        if is_tighter(job.spec, changed.spec):
            money = moment.money_of(job)
            check_paid(changed, money)
            plan = await self._plan(changed, now, least_probability, money.posted + money.accrued)
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
                await uow.jobs.save(event_log.job)
                await uow.events.add(event_log.records)
                if plan is None or plan.forecast is None:
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
            raise UserError(f"job {job.spec.name} has no code of its own", hint="[code] in the job file sends it along")
        if uid not in (job.owner, os.getuid(), 0):
            raise UserError(f"the code of job {job.spec.name} is another user's", hint="ask whoever submitted it")
        keys = [code_key(job.code.copy_id, i) for i in range(job.code.part_count + 1)]
        urls = [self._blobs.sign_get(key, URL_VALID_FOR) for key in keys]
        return {"name": job.spec.name, "code": render.code(job.code), "urls": urls}

    async def cancel(self, reference: str) -> tuple[render.Json, str]:
        """The job, and why the ledger could not take the cancel, empty where it did.

        It holds all the same: its machines are destroyed, and it is recorded as soon as it can be. Of a job that is
        over it gives back the machine that is held.
        Raises ``UserError``, and ``StoreUnavailable`` where the ledger cannot even be read.
        """
        try:
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

    async def resume(self, reference: str, from_checkpoint: str = "", once: Once | None = None) -> render.Json:
        """Let a parked job go on. ``from_checkpoint``: ``12``, or ``LEASE.12`` where two machines wrote one; newer
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
            raise UserError(f"job {job.spec.name} is {job.status} and cannot go back", hint=hint)
        known = await uow.checkpoints.list_by_job(job.id)
        await set_aside_newer(uow, known, _chosen(known, chosen), "user", self._clock.now())
        return await find_job(uow, job.id)

    async def release(self, reference: str) -> render.Json:
        """Give back the machine that is held of a job that has failed. Raises ``UserError``."""
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
            hint = "autopilot resume lets it go on" if job.status is JobStatus.PARKED else ""
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
        return self.render(event_log.job, await self._read_moment(uow))

    async def _read_moment(self, uow: UnitOfWork) -> Moment:
        return await read_moment(uow, self._clock.now(), self._engine.config.params)

    def render(self, job: Job, moment: Moment) -> render.Json:
        total = moment.money_of(job)
        wait = self._engine.waits.of(job)
        answer = render.job(job, self._clock.now(), self._engine.config.params, total, wait)
        if job.status is JobStatus.PENDING and not any(w.last.known for w in self._engine.watches.values()):
            answer["reason"] = Reason.MARKET_UNKNOWN
        elif job.status is JobStatus.PENDING and wait is not None:
            answer["reason"] = wait.reason
        return answer

    def _check_markets(self) -> None:
        """A key that is refused is for the user to mend now, not for the job to wait upon."""
        watches = self._engine.watches
        refused = [name for name, watch in watches.items() if watch.no_rights]
        if watches and len(refused) == len(watches):
            reasons = "; ".join(f"{name}: {watches[name].last.reason}" for name in refused)
            raise UserError(f"no market accepts its key ({reasons})", hint=replace_keys(refused))


async def _find_last(uow: UnitOfWork, job_id: str, owner: int | None) -> tuple[datetime, str] | None:
    """What the page before ended with. Raises ``UserError``."""
    if not job_id:
        return None
    last = await uow.jobs.find(job_id, owner=owner)
    if last is None or last.id != job_id:
        raise UserError("after: no page ends with that", hint="give what the page before named as next")
    return last.submitted_at, last.id


def _is_on_page(job: Job, owner: int | None, last: tuple[datetime, str] | None, since: datetime | None) -> bool:
    """Of those that are open, oldest first. A job that only gives back its machines is none of them."""
    is_shown = owner in (None, job.owner) and (job.on_hold or not job.status.is_final)
    is_after = last is None or (job.submitted_at, job.id) > last
    return bool(is_shown and is_after and (since is None or job.submitted_at >= since))


def _refuse_if_over(job: Job) -> None:
    if job.status.is_final:
        raise UserError(f"job {job.spec.name} is over: {job.status}", hint="autopilot ps -a lists all jobs")


def _check_code(spec: JobSpec, code: SentCode | None) -> None:
    if spec.code is not None and code is None:
        raise UserError("the job file has [code], and no code came with it", hint="submit it by autopilot submit")
    if spec.code is None and code is not None:
        raise UserError("code came with a job file that has no [code]")
    if spec.code is not None and code is not None and code.size_bytes > spec.code.most_bytes:
        raise UserError(f"the code has {code.size_bytes:,} bytes, and code.max is {spec.code.most_bytes:,}")


def _code_of(code: SentCode | None, copy: CodeCopy | None) -> JobCode:
    if code is None:
        return JobCode()
    return code.as_planned() if copy is None else code.as_taken(copy)


def _script_notes(spec: JobSpec) -> list[str]:
    """A program of the user's that runs, and that nothing in the job file brings to the machine."""
    if spec.code or spec.setup or spec.inputs:
        return []
    scripts = _SCRIPT.findall(spec.run)
    return [
        f"nothing in the job file brings {script} to the machine: it has to be in the image, in {spec.workdir}. "
        '[code] path = "." sends your directory along'
        for script in dict.fromkeys(scripts)
    ]


def _chosen(known: Sequence[Checkpoint], name: str) -> Checkpoint:
    """Raises ``UserError`` unless exactly one is called that."""
    found = [each for each in known if name in (str(each.number), f"{each.lease_id}.{each.number}")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{each.lease_id}.{each.number}" for each in found or known) or "none"
    raise UserError(
        f"{'two machines wrote' if found else 'there is no'} checkpoint {name}", hint=f"it can go back to: {names}"
    )
