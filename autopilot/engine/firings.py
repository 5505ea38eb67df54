"""Schedules: which of their firings are due, and the jobs that are made of them.

A firing, its job and what the schedule remembers of it are written in one transaction, and the ledger takes one job for
each schedule and due instant. So a firing is made once, wherever a daemon is killed, by whichever of two daemons, and
also where the clock is set back over an instant that has fired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from autopilot.domain.after import After, On
from autopilot.domain.cadence import Overlap, count_due, find_newest, find_next
from autopilot.domain.delegation import Delegation, Settled
from autopilot.domain.job import Job, JobSpec, JobStatus
from autopilot.domain.money import Number
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import Schedule, ScheduleReason, ScheduleStatus
from autopilot.domain.token import MOST_OPEN_JOBS, Scope, Token, is_of_token
from autopilot.engine.learnt_time import learn_time
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import EventRecord, Store, StoreUnavailable, UnitOfWork

log = structlog.get_logger(__name__)

GRACE = timedelta(minutes=10)
"""A firing that is looked at later than this after it was due is missed."""


class Firings:
    def __init__(self, store: Store, clock: Clock, ids: Ids, settled: Settled, params: Params) -> None:
        """``settled``: whom the settings limit."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._settled = settled
        self._params = params
        self.next_due: datetime | None = None
        """Over all schedules, as of the last read."""

    async def fire_due(self) -> None:
        """Make the jobs that are due, and end the schedules that are over. Raises ``StoreUnavailable``.

        Each schedule has a transaction of its own, where there is something to write; one that fails leaves the others
        alone.
        """
        now = self._clock.now()
        async with self._store.snapshot() as uow:
            live = await uow.schedules.list_live()
            owners = await _read_owners(uow, live, self._settled)
        nexts: list[datetime | None] = []
        for schedule in live:
            try:
                if _has_news(schedule, owners, now):
                    async with self._store.transaction() as uow:
                        await self._look(uow, schedule.id, now)
                    nexts.append(find_next(schedule.cadence, now))
                elif schedule.status is ScheduleStatus.ACTIVE:
                    nexts.append(_coming(schedule))
            except StoreUnavailable:
                raise
            except Exception:
                log.exception("schedule.look_failed", schedule=schedule.id)
        self.next_due = min((due for due in nexts if due is not None), default=None)

    async def _look(self, uow: UnitOfWork, schedule_id: str, now: datetime) -> None:
        """``uow``: everything is read again in it."""
        schedule = await uow.schedules.find(schedule_id)
        if schedule is None or schedule.status is ScheduleStatus.ENDED:
            return
        token = (await _read_owners(uow, [schedule], self._settled)).get(schedule.owner)
        records: list[EventRecord] = []
        if has_lost_token(schedule, token, now):
            schedule = end(schedule, ScheduleReason.TOKEN_ENDED, now, records)
        elif now < schedule.looked_until:
            # The clock was set back. What has fired is in the ledger and does not fire again.
            schedule = replace(schedule, looked_until=now)
        else:
            if schedule.status is ScheduleStatus.ACTIVE:
                schedule = await self._fire(uow, schedule, token, now, records)
            schedule = _end_if_done(schedule, now, records)
        await uow.schedules.save(schedule)
        await uow.events.add(records)

    async def _fire(
        self, uow: UnitOfWork, schedule: Schedule, token: Token | None, now: datetime, records: list[EventRecord]
    ) -> Schedule:
        """At most the newest of the firings that are due becomes a job."""
        cadence, since = schedule.cadence, schedule.looked_until
        due = find_newest(cadence, since, now)
        if due is None:
            return schedule
        schedule = replace(schedule, looked_until=due)
        if await uow.jobs.has_fired(schedule.id, due):
            return schedule
        is_missed = now - due > GRACE and not cadence.catch_up
        missed = count_due(cadence, since, due) + is_missed
        if missed:
            newest = due if is_missed else find_newest(cadence, since, due - timedelta(seconds=1)) or due
            schedule = _leave_out(schedule, ScheduleReason.MISSED, newest, missed)
            records.append(
                _record(schedule, "schedule.missed", now, (("due", newest.isoformat()), ("firings", missed)))
            )
        if is_missed:
            return schedule
        earlier = await uow.jobs.list_open_firings(schedule.id)
        refusal = _refusal(schedule, token, earlier) or await _refuse_crowd(uow, schedule)
        if refusal is not None:
            again = int(_was_left_out(schedule, refusal))
            schedule = _leave_out(schedule, refusal, due, 1)
            fields: tuple[tuple[str, Number], ...] = (("due", due.isoformat()), ("reason", refusal), ("again", again))
            in_the_way = earlier[-1].id if earlier and refusal is ScheduleReason.OVERLAP else None
            records.append(_record(schedule, "schedule.skipped", now, fields, in_the_way))
            return schedule
        spec = firing_spec(schedule, due, earlier)
        spec, _ = await learn_time(uow, spec, schedule.owner, self._params.deadline.estimate_error)
        reason = Reason.WAITING_FOR_JOBS if spec.after else Reason.SUBMITTED
        job = Job(self._ids.new(), spec, JobStatus.PENDING, reason, now, owner=schedule.owner, code=schedule.code)
        job = replace(job, file_sha256=schedule.file_sha256, schedule_id=schedule.id, due_at=due)
        await uow.jobs.save(job)
        schedule = replace(schedule, fired=schedule.fired + 1, last_due=due, last_job=job.id)
        records.append(EventRecord(now, "job.submitted", job.id, None, (("name", spec.name),)))
        fired = ("due", due.isoformat()), ("firing", schedule.fired)
        records.append(_record(schedule, "schedule.fired", now, fired, job.id))
        return schedule


def firing_spec(schedule: Schedule, due: datetime, earlier: Sequence[Job] = ()) -> JobSpec:
    """What the job of that firing asks for. ``earlier``: firings that are not over, for whose ends it waits."""
    spec = schedule.spec
    deadline = None if spec.due_within is None else due + spec.due_within
    after = tuple(After(job.id, On.ANY) for job in earlier)
    return replace(spec, schedule=None, due_within=None, deadline=deadline, after=after)


def has_lost_token(schedule: Schedule, token: Token | None, now: datetime) -> bool:
    return is_of_token(schedule.owner) and (token is None or not token.is_in_force(now))


def end(schedule: Schedule, reason: ScheduleReason, now: datetime, records: list[EventRecord]) -> Schedule:
    """Jobs that it has made go on."""
    ended = replace(schedule, status=ScheduleStatus.ENDED, reason=reason, ended_at=now)
    records.append(_record(ended, "schedule.ended", now, (("reason", reason), ("firings", ended.fired))))
    return ended


def move(schedule: Schedule, status: ScheduleStatus, now: datetime, records: list[EventRecord]) -> Schedule:
    """As its owner asks: pause it, or let it go on. What was due while it was paused is not made up for."""
    is_paused = status is ScheduleStatus.PAUSED
    reason = ScheduleReason.USER_PAUSED if is_paused else ScheduleReason.USER_RESUMED
    looked_until = schedule.looked_until if is_paused else max(schedule.looked_until, now)
    moved = replace(schedule, status=status, reason=reason, looked_until=looked_until)
    records.append(_record(moved, "schedule.paused" if is_paused else "schedule.resumed", now))
    return moved


def begin(schedule: Schedule) -> EventRecord:
    """What is recorded of a new one."""
    return _record(schedule, "schedule.created", schedule.created_at, (("cron", schedule.cadence.cron),))


async def _read_owners(uow: UnitOfWork, schedules: Iterable[Schedule], settled: Settled) -> Mapping[int, Token]:
    """What bounds their owners, by owner; whom nothing bounds is not there."""
    tokens = await uow.tokens.list_all() if any(is_of_token(each.owner) for each in schedules) else ()
    return {token.owner: token for token in (*settled.users, *map(Delegation(tokens, settled).limit, tokens))}


def _has_news(schedule: Schedule, owners: Mapping[int, Token], now: datetime) -> bool:
    if has_lost_token(schedule, owners.get(schedule.owner), now) or now < schedule.looked_until:
        return True
    if schedule.status is ScheduleStatus.PAUSED:
        return schedule.cadence.until is not None and schedule.cadence.until <= now
    coming = _coming(schedule)
    return coming is None or coming <= now


def _coming(schedule: Schedule) -> datetime | None:
    """The next that is due. From where it was looked at last, not from now: that is reckoned once, not at each tick."""
    return find_next(schedule.cadence, schedule.looked_until)


def _end_if_done(schedule: Schedule, now: datetime, records: list[EventRecord]) -> Schedule:
    count = schedule.cadence.count
    if count is not None and schedule.fired >= count:
        return end(schedule, ScheduleReason.COUNT_REACHED, now, records)
    if find_next(schedule.cadence, max(schedule.looked_until, now)) is None:
        return end(schedule, ScheduleReason.UNTIL_REACHED, now, records)
    return schedule


def _refusal(schedule: Schedule, token: Token | None, earlier: Sequence[Job]) -> ScheduleReason | None:
    """Why the firing is left out. ``earlier``: its schedule's jobs that are not over."""
    is_one_waiting = any(job.waits_for_jobs for job in earlier)
    if earlier and (schedule.cadence.overlap is Overlap.SKIP or is_one_waiting):
        return ScheduleReason.OVERLAP
    spec = schedule.spec
    registry = () if spec.registry is None else (spec.registry.secret,)
    secrets = {*(name for _, name in spec.secrets), *registry}
    if token is not None and not (token.scope.covers(Scope.SUBMIT) and secrets <= set(token.secrets)):
        return ScheduleReason.NOT_ALLOWED
    ask_above = None if token is None or schedule.is_confirmed else token.ask_above
    if ask_above is not None and (spec.budget is None or spec.budget > ask_above):
        return ScheduleReason.CONFIRM_FIRST
    return None


async def _refuse_crowd(uow: UnitOfWork, schedule: Schedule) -> ScheduleReason | None:
    """As many jobs of a token as it may have at once leave no room for another."""
    if not is_of_token(schedule.owner):
        return None
    owners = [job.owner for job in await uow.jobs.list_open()]
    count = Delegation(await uow.tokens.list_all()).most_open(schedule.owner, owners)
    return ScheduleReason.TOO_MANY_JOBS if count >= MOST_OPEN_JOBS else None


def _was_left_out(schedule: Schedule, reason: ScheduleReason) -> bool:
    """The firing before was, for the same reason."""
    at, fired = schedule.left_out_at, schedule.last_due
    return schedule.left_out_reason is reason and at is not None and (fired is None or at > fired)


def _leave_out(schedule: Schedule, reason: ScheduleReason, due: datetime, firings: int) -> Schedule:
    left_out = schedule.left_out + firings
    return replace(schedule, left_out=left_out, left_out_at=due, left_out_reason=reason)


def _record(
    schedule: Schedule, name: str, at: datetime, fields: tuple[tuple[str, Number], ...] = (), job_id: str | None = None
) -> EventRecord:
    whose = ("schedule", schedule.id), ("name", schedule.spec.name), ("owner", schedule.owner)
    return EventRecord(at, name, job_id, None, (*whose, *fields))
