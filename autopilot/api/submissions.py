"""Job files that are handed in: read, planned, and accepted together or not at all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from autopilot import render
from autopilot.api.access import check_total
from autopilot.api.certify import certificate_notes
from autopilot.api.code import CodeService, SentCode, take
from autopilot.api.confirmations import PlanBook
from autopilot.api.key_hint import replace_keys
from autopilot.api.once import Once
from autopilot.api.predecessors import resolve, tell_waits
from autopilot.api.same_job import hash_file, refuse_crowd, refuse_doubles, refuse_same
from autopilot.books.budget import account
from autopilot.domain import events as e
from autopilot.domain.code import CodeCopy, JobCode
from autopilot.domain.errors import UserError
from autopilot.domain.evolve import evolve
from autopilot.domain.job import Job, JobSpec, JobStatus
from autopilot.domain.money import ZERO
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.reasons import Reason
from autopilot.domain.time import show_duration
from autopilot.domain.token import Token, is_of_token
from autopilot.engine.engine import Engine
from autopilot.engine.learnt_time import learn_time
from autopilot.engine.outstanding import Money
from autopilot.planning.array_plan import plan_array
from autopilot.planning.array_table import with_table
from autopilot.planning.asleep import asleep_notes
from autopilot.planning.floor_prospects import read_cheapest, with_bidders
from autopilot.planning.gpu_check import check_gpus, meanings, raise_disk, unfillable
from autopilot.planning.host_notes import host_notes
from autopilot.planning.market_notes import market_notes
from autopilot.planning.plan import JobPlan, plan
from autopilot.planning.prospects import INFEASIBLE, Unlikely
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.images import ImageAnswer, NoSuchImage, NotRead
from autopilot.ports.store import EventRecord, Store, UnitOfWork

ParseJob = Callable[[str, str, datetime, Token | None], JobSpec]
"""(text, source, now, token whose job it is to be) → spec; raises ``UserError``."""

Tell = Callable[[list[render.Json]], render.Json]
"""From each job with its plan to the answer."""

_SCRIPT = re.compile(r"""\b(?:python3?|bash|sh|torchrun|accelerate launch)\s+((?![/$~-])[^\s;&|)"']+\.(?:py|sh))\b""")
"""A program by a path from the work directory, as commands name it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One job file. ``code``: what its sender has sent, or with a dry run would send."""

    toml: str
    source: str
    code: SentCode | None = None
    table: str | None = None
    """The text of what ``[array] from`` names."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A job that is not accepted yet: what it waits for is as its owner wrote it."""

    job: Job
    copy: CodeCopy | None
    sent: Sent
    plan: JobPlan


class Submissions:
    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: Clock,
        ids: Ids,
        parse: ParseJob,
        wake: Callable[[], None],
        code: CodeService,
        plans: PlanBook,
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._ids = ids
        self._parse = parse
        self._wake = wake
        self._code = code
        self._plans = plans

    def parse(self, text: str, source: str, token: Token | None = None) -> JobSpec:
        """Raises ``UserError``."""
        return self._parse(text, source, self._clock.now(), token)

    async def submit(
        self,
        sent: Sequence[Sent],
        tell: Tell,
        *,
        dry_run: bool,
        least_probability: float = LEAST_PROBABILITY,
        owner: int,
        token: Token | None = None,
        again: bool = False,
        plan_id: str = "",
        once: Once | None = None,
    ) -> render.Json:
        """Accept job files, all or none; with ``dry_run`` only say what would happen. They may name one another.

        ``owner``: the caller's; ``token``: theirs, if they have one; ``again``: whether second jobs of the same are
        meant; ``plan_id``: what a person has confirmed; ``once``: the request that must not act twice.

        Raises ``UserError``; ``SameJobOpen``; ``ConfirmFirst``; ``SendAgain`` when the code is not there; ``Unlikely``
        where a job with a deadline would be done in time and within its budget with less than that probability, where
        the budget of one without suffices in no market, or where nothing that was ever seen has what it asks for; 0
        accepts any.
        """
        now = self._clock.now()
        self.check_markets()
        read = [await self.read(each, now, owner, token, dry_run=dry_run) for each in sent]
        for each, (job, _, _) in zip(sent, read, strict=True):
            with _said_of(each.source, is_one=len(sent) == 1):
                _refuse_schedule(job.spec)
        await asyncio.gather(*(self._engine.images.ask(job.spec) for job, _, _ in read))
        async with self._store.snapshot() as uow:
            resolved = await resolve(uow, [job for job, _, _ in read], now)
        drafts = []
        for each, (job, copy, learnt), as_accepted in zip(sent, read, resolved, strict=True):
            with _said_of(each.source, is_one=len(sent) == 1):
                planned = await self.plan_draft(as_accepted.job, now, least_probability, learnt)
                if planned.answer["refusal"] is not None and not dry_run:
                    raise Unlikely(planned.answer["refusal"], hint="; ".join(planned.answer["ways_out"]))
            drafts.append(_Draft(job, copy, each, planned))
        if dry_run:
            return tell([{"job": None, "plan": draft.plan.answer} for draft in drafts])
        jobs = [draft.job for draft in drafts]
        asked = [[job.file_sha256, render.plain(job.spec.budget), render.plain(job.spec.max_rate)] for job in jobs]
        with self._plans.asking(token, "submit", _together([job.spec for job in jobs]), asked, plan_id):
            async with self._store.transaction() as uow:
                if not again:
                    refuse_doubles([(draft.job, draft.sent.source) for draft in drafts])
                answer = tell(await self._accept(uow, drafts, now, again=again))
                if once is not None:
                    await once.keep(uow, 201, answer)
        self._wake()
        return answer

    async def read(
        self, sent: Sent, now: datetime, owner: int, token: Token | None, *, dry_run: bool
    ) -> tuple[Job, CodeCopy | None, Sequence[str]]:
        """The job that a file asks for, its code, and what to say of what was changed in it. Raises ``UserError``."""
        parsed = with_table(self._parse(sent.toml, sent.source, now, token), sent.table, sent.source)
        spec, of_disk = raise_disk(await check_gpus(parsed, self._engine), self._engine)
        check_total(spec, is_of_token(owner))
        _check_code(spec, sent.code)
        spec, learnt = await self._learn_time(spec, owner)
        copy = await self._code.require(owner, sent.code.sha256) if sent.code and not dry_run else None
        taken = _code_of(sent.code, copy)
        job = Job(self._ids.new(), spec, JobStatus.PENDING, Reason.SUBMITTED, now, owner=owner)
        notes = [*learnt, *filter(None, [of_disk])]
        return replace(job, code=taken, file_sha256=hash_file(sent.toml, taken.sha256, sent.table)), copy, notes

    async def _learn_time(self, spec: JobSpec, owner: int) -> tuple[JobSpec, Sequence[str]]:
        """``spec`` with the longest time that its owner's past estimates speak for, and what to say of it."""
        async with self._store.snapshot() as uow:
            spec, learnt = await learn_time(uow, spec, owner, self._engine.config.params.deadline.estimate_error)
        if learnt is None:
            return spec, ()
        note = f"time is held for {show_duration(learnt.at_most)} of work, {learnt.error:.0%} more than estimated"
        return spec, (f"{note}, by {learnt.jobs} past jobs of yours",)

    async def plan_draft(self, job: Job, now: datetime, least_probability: float, learnt: Sequence[str]) -> JobPlan:
        plan = await self.plan(job, now, least_probability)
        planned = plan.answer
        self._judge_image(planned, job, await self._engine.images.ask(job.spec), least_probability)
        planned["notes"] += [*learnt, *_script_notes(job.spec), *tell_waits(job)]
        if job.spec.secrets:
            given = ", ".join(variable for variable, _ in job.spec.secrets)
            planned["notes"].append(f"the owner of the rented host can read the job's code, data and secrets ({given})")
        if job.spec.registry is not None:
            server = job.spec.registry.server
            planned["notes"].append(f"the market, and the host that pulls the image, get the login for {server}")
        return plan

    @staticmethod
    def _judge_image(planned: render.Json, job: Job, answer: ImageAnswer, least_probability: float) -> None:
        """An image that is not there ends each machine. A job that waits for others may wait for one that makes it."""
        if isinstance(answer, NotRead):
            planned["notes"] += [f"what the image requires is not known ({answer.reason})"] if answer.reason else []
        elif isinstance(answer, NoSuchImage):
            if job.spec.after or not least_probability:
                planned["notes"].append(f"image: {answer.message}")
            else:
                ways_out = ["correct image in the job file, or push it; --min-probability 0 accepts the job as it is"]
                planned |= {"refusal": f"image: {answer.message}", "verdict": INFEASIBLE, "ways_out": ways_out}

    async def _accept(
        self, uow: UnitOfWork, drafts: Sequence[_Draft], now: datetime, *, again: bool
    ) -> list[render.Json]:
        """Looks up again what they wait for: it may have ended while they were planned."""
        if not again:
            for draft in drafts:
                await refuse_same(uow, draft.job)
        accepted = await resolve(uow, [draft.job for draft in drafts], now)
        for draft, taken in zip(drafts, accepted, strict=True):
            job = taken.job
            await refuse_crowd(uow, job)
            if draft.copy is not None:
                await take(uow, draft.copy)
            await uow.jobs.save(job)
            if draft.sent.table is not None:
                await uow.jobs.keep_table(job.id, draft.sent.table)
            if draft.plan.forecast is not None and not job.waits_for_jobs:
                await uow.forecasts.save(draft.plan.forecast)
            submitted = EventRecord(now, "job.submitted", job.id, None, (("name", job.spec.name),))
            await uow.events.add([submitted, *taken.records])
        titles = await uow.jobs.list_titles({after.job for taken in accepted for after in taken.job.spec.after})
        params = self._engine.config.params
        return [
            {"job": render.job(taken.job, now, params, Money(), titles=titles), "plan": draft.plan.answer}
            for draft, taken in zip(drafts, accepted, strict=True)
        ]

    async def plan(self, job: Job, now: datetime, least_probability: float, spent: Decimal = ZERO) -> JobPlan:
        """A job that waits for others is planned as if they had ended now: when they will is unknown.

        ``spent``: of the job so far, what is not posted yet included, $. Raises ``OverBudget`` and ``Unlikely``.
        """
        if job.waits_for_jobs:
            job = evolve(job, e.PredecessorsEnded(now, now))
        offers = await self._engine.offers(job.spec.query)
        market = self._engine.market_view(offers, None, self._clock.now())
        market = replace(market, image=self._engine.images.facts_of(job.spec))
        config = self._engine.config
        market = await with_bidders(self._engine, job, market, now)
        async with self._store.snapshot() as uow:
            limits = await account(uow, config.limits, now, config.params)
            cheapest = await read_cheapest(uow, offers, now)
            counts = (await uow.jobs.count_tasks([job.id]))[job.id]
        reckon: Callable[..., JobPlan] = partial(plan_array, counts=counts) if job.is_array else plan
        asked = job, market, now, config.params, least_probability, limits, spent, cheapest
        made = await asyncio.to_thread(reckon, *asked)
        planned = made.answer
        if not made.may_begin and least_probability:
            lacking = await unfillable(job.spec, self._engine, self._store, now)
            if lacking:
                planned |= {"refusal": lacking, "verdict": INFEASIBLE}
        planned["notes"] += await host_notes(self._engine, job, offers, now)
        planned["notes"] += meanings(job.spec)
        planned["notes"] += certificate_notes(self._engine, made.least_rates, now)
        planned["notes"] += market_notes(self._engine)
        planned["notes"] += asleep_notes(self._engine, now)
        planned["notes"] += [
            f"{name} cannot be read now ({watch.last.reason}): the job waits for it"
            for name, watch in self._engine.watches.items()
            if not watch.last.known
        ]
        return made

    def check_markets(self) -> None:
        """A key that is refused is for the user to mend now, not for the job to wait upon."""
        watches = self._engine.watches
        refused = [name for name, watch in watches.items() if watch.no_rights]
        if watches and len(refused) == len(watches):
            reasons = "; ".join(f"{name}: {watches[name].last.reason}" for name in refused)
            raise UserError(f"no market accepts its key ({reasons})", hint=replace_keys(refused))


@contextmanager
def _said_of(source: str, *, is_one: bool) -> Iterator[None]:
    """Names the refused file if there are several."""
    try:
        yield
    except UserError as problem:
        if not is_one:
            problem.message = f"{source}: {problem.message}"
        raise


def _together(specs: Sequence[JobSpec]) -> JobSpec:
    """What a person is shown to confirm: of several jobs their names, commands and sums."""
    first = specs[0]
    if len(specs) == 1:
        return first
    budgets, rates = [spec.budget for spec in specs], [spec.max_rate for spec in specs]
    return replace(
        first,
        name=", ".join(spec.name for spec in specs),
        image=", ".join(dict.fromkeys(spec.image for spec in specs)),
        run="\n".join(f"{spec.name}: {spec.run}" for spec in specs),
        budget=_sum(budgets),
        max_rate=_sum(rates),
        max_hourly=None,
    )


def _sum(limits: Sequence[Decimal | None]) -> Decimal | None:
    """None if one of them has no limit."""
    known = [limit for limit in limits if limit is not None]
    return sum(known, ZERO) if len(known) == len(limits) else None


def _refuse_schedule(spec: JobSpec) -> None:
    if spec.schedule is not None:
        hint = "autopilot submit FILE does so for one file; programs send it to POST /v1/schedules"
        raise UserError("a job file with [schedule] is submitted by itself, as a schedule", hint=hint)


def _check_code(spec: JobSpec, code: SentCode | None) -> None:
    if spec.code is not None and code is None:
        raise UserError("the job file has [code], but no code was sent", hint="submit it with autopilot submit")
    if spec.code is None and code is not None:
        raise UserError("code was sent, but the job file has no [code]")
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
