"""What the API can be asked about schedules, and to do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autopilot import render
from autopilot.answers.models.schedules import ScheduleBody
from autopilot.api.access import ApiCaller, NotAllowed
from autopilot.api.code import take
from autopilot.api.confirmations import PlanBook, asks_above
from autopilot.api.once import Once
from autopilot.api.submissions import Sent, Submissions
from autopilot.books.schedule_view import firings_shown, list_live, render_schedule
from autopilot.domain.cadence import Cadence, list_due
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.schedule import MOST_SCHEDULES, Schedule, ScheduleReason, ScheduleStatus
from autopilot.domain.token import Scope, is_of_token
from autopilot.engine.firings import begin, end, firing_spec, move
from autopilot.planning.prospects import Unlikely
from autopilot.ports.clock import Clock
from autopilot.ports.store import EventRecord, Store, UnitOfWork

MOST_LISTED = 200


class ScheduleNotFound(UserError):
    """No such schedule."""


class ScheduleService:
    def __init__(
        self, submissions: Submissions, store: Store, clock: Clock, plans: PlanBook, wake: Callable[[], None]
    ) -> None:
        self._submissions = submissions
        self._store = store
        self._clock = clock
        self._plans = plans
        self._wake = wake

    async def create(self, sent: Sent, asked: ScheduleBody, caller: ApiCaller, once: Once | None = None) -> render.Json:
        """Accept a job file with ``[schedule]``; with ``dry_run`` only say what a firing due now would be.

        Raises what ``Submissions.submit`` raises.
        """
        now, owner, token = self._clock.now(), caller.owner, caller.token
        self._submissions.check_markets()
        job, copy, learnt = await self._submissions.read(sent, now, owner, token, dry_run=asked.dry_run)
        cadence = _check_cadence(job.spec, owner)
        made = Schedule(job.id, job.spec, owner, ScheduleStatus.ACTIVE, ScheduleReason.SUBMITTED, now, now)
        made = replace(made, code=job.code, file_sha256=job.file_sha256)
        due_now = replace(job, spec=firing_spec(made, now))
        planned = (await self._submissions.plan_draft(due_now, now, asked.min_probability, learnt)).answer
        if planned["refusal"] is not None and not asked.dry_run:
            raise Unlikely(planned["refusal"], hint="; ".join(planned["ways_out"]))
        coming = [render.plain(due) for due in list_due(cadence, now, firings_shown(made))]
        answer: render.Json = {"schedule": None, "next": coming, "zone": cadence.zone, "plan": planned}
        if asked.dry_run:
            return answer
        shown = _as_confirmed(job.spec, cadence)
        bound = [job.file_sha256, render.plain(shown.budget), render.plain(job.spec.max_rate)]
        with self._plans.asking(token, "schedule", shown, bound, asked.plan):
            made = replace(made, is_confirmed=asks_above(token, shown) is not None)
            async with self._store.transaction() as uow:
                await _refuse_more(uow, made)
                if copy is not None:
                    await take(uow, copy)
                await uow.schedules.save(made)
                if sent.table is not None:
                    await uow.schedules.keep_table(made.id, sent.table)
                await uow.events.add([begin(made)])
                answer["schedule"] = await render_schedule(uow, made, now)
                if once is not None:
                    await once.keep(uow, 201, answer)
        self._wake()
        return answer

    async def overview(self, owner: int | None, *, all: bool) -> render.Json:
        """``owner``: of that one alone; ``all``: those that have ended too."""
        now = self._clock.now()
        async with self._store.snapshot() as uow:
            if all:
                found: Sequence[Schedule] = await uow.schedules.list_newest(limit=MOST_LISTED, owner=owner)
            else:
                found = await list_live(uow, owner)
            return {"schedules": [await render_schedule(uow, each, now) for each in found[:MOST_LISTED]]}

    async def move(self, reference: str, caller: ApiCaller, status: ScheduleStatus) -> render.Json:
        """Pause it, let it go on, or end it. Jobs that it has made stay what they are. Raises ``UserError``."""
        now = self._clock.now()
        async with self._store.transaction() as uow:
            schedule = await _find(uow, reference, caller)
            if schedule.status in (status, ScheduleStatus.ENDED):
                hint = "submit its file again" if schedule.status is ScheduleStatus.ENDED else ""
                raise UserError(f"schedule {schedule.spec.name} is {schedule.status} already", hint=hint)
            records: list[EventRecord] = []
            if status is ScheduleStatus.ENDED:
                schedule = end(schedule, ScheduleReason.USER_ENDED, now, records)
            else:
                schedule = move(schedule, status, now, records)
            await uow.schedules.save(schedule)
            await uow.events.add(records)
            answer = {"schedule": await render_schedule(uow, schedule, now)}
        self._wake()
        return answer


def _check_cadence(spec: JobSpec, owner: int) -> Cadence:
    if spec.schedule is None:
        raise UserError("the job file has no [schedule]", hint="submit it with POST /v1/jobs")
    if is_of_token(owner) and spec.schedule.budget is None:
        hint = '[budget] all = "$60/month" in the job file'
        raise NotAllowed("the schedule of a token must have a budget over all firings", hint=hint)
    return spec.schedule


def _as_confirmed(spec: JobSpec, cadence: Cadence) -> JobSpec:
    """What a person is shown: when it is due, and what all firings may cost."""
    return replace(spec, run=f"{cadence.cron} ({cadence.zone}): {spec.run}", budget=cadence.budget)


async def _refuse_more(uow: UnitOfWork, made: Schedule) -> None:
    """Raises ``UserError`` for a second one of the name, and for more than an owner may have."""
    others = [each for each in await uow.schedules.list_live() if each.owner == made.owner]
    name = made.spec.name
    if same := [each.id for each in others if each.spec.name == name]:
        hint = f"autopilot schedules end {name} ends it; or give this one another name"
        raise UserError(f"there is a schedule {name} already ({same[0]})", hint=hint)
    if len(others) >= MOST_SCHEDULES:
        raise NotAllowed(f"you have {len(others)} schedules, which is the limit", hint="end some")


async def _find(uow: UnitOfWork, reference: str, caller: ApiCaller) -> Schedule:
    """The caller's own, or anybody's for an admin. Raises ``UserError``."""
    found = await uow.schedules.find(reference, owner=caller.owner)
    if found is None and caller.scope.covers(Scope.ADMIN):
        found = await uow.schedules.find(reference)
    if found is None:
        raise ScheduleNotFound(f"no schedule {reference[:60]!r}", hint="autopilot schedules --all lists them")
    return found
