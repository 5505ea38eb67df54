"""Jobs with what belongs to them, and their checkpoints: the newest one is a job's ``checkpoint``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Select, case, delete, func, or_, select, update

from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import SPEND_TYPES
from autopilot.domain.money import ZERO
from autopilot.domain.task_shares import share_spent
from autopilot.ports.store.jobs import JobTitle
from autopilot.store.leases import LIVE, SHARED, SqlLeases
from autopilot.store.ledger import SqlLedger
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import array_tables, checkpoints, jobs, lease_uses, leases, ledger_entries
from autopilot.store.statements import SqlRepository, Statements

_MIN_PREFIX_LENGTH = 6
SHOWN = 5
"""Jobs of one beginning of an id that an answer names."""
_OPEN = [status for status in JobStatus if not status.is_final]


class SqlCheckpoints(SqlRepository):
    __slots__ = ()

    async def add(self, checkpoint: Checkpoint) -> None:
        await self._sql.append(checkpoints, [values_of(checkpoints, checkpoint)])

    async def remove(self, checkpoint: Checkpoint) -> None:
        is_it = (checkpoints.c.lease_id == checkpoint.lease_id) & (checkpoints.c.number == checkpoint.number)
        await self._sql.run(delete(checkpoints).where(is_it))

    async def set_aside(self, checkpoint: Checkpoint, is_set_aside: bool) -> None:
        is_it = (checkpoints.c.lease_id == checkpoint.lease_id) & (checkpoints.c.number == checkpoint.number)
        await self._sql.run(update(checkpoints).where(is_it).values(is_set_aside=is_set_aside))

    async def list_by_job(self, job_id: str) -> tuple[Checkpoint, ...]:
        return tuple(reversed(await self.list_by_jobs([job_id])))

    async def list_by_jobs(self, job_ids: Sequence[str]) -> list[Checkpoint]:
        """By ``order``, the smallest first."""
        chosen = select(checkpoints).where(checkpoints.c.job_id.in_(job_ids))
        found = [record_of(Checkpoint, checkpoints, row) for row in await self._sql.fetch_all(chosen)]
        return sorted(found, key=lambda checkpoint: (checkpoint.order, checkpoint.verified_at))


class SqlJobs(SqlRepository):
    __slots__ = ("_checkpoints", "_leases", "_ledger")

    def __init__(self, sql: Statements, leases: SqlLeases, checkpoints: SqlCheckpoints, ledger: SqlLedger) -> None:
        super().__init__(sql)
        self._ledger = ledger
        self._leases = leases
        self._checkpoints = checkpoints

    async def save(self, job: Job) -> None:
        await self.save_all((job,))

    async def save_all(self, saved: Collection[Job]) -> None:
        await self._sql.upsert(jobs, [values_of(jobs, job, name=job.spec.name) for job in saved])
        await self._leases.save_all(lease for job in saved for lease in job.leases)

    async def find(self, reference: str, *, owner: int | None = None) -> Job | None:
        by_id = await self._select(_of_owner(owner).where(jobs.c.id == reference))
        if by_id:
            return by_id[0]
        if len(reference) >= _MIN_PREFIX_LENGTH:
            prefix = func.substr(jobs.c.id, 1, len(reference))
            by_prefix = await self._select(_of_owner(owner).where(prefix == reference).limit(2))
            if len(by_prefix) == 1:
                return by_prefix[0]
        newest = _of_owner(owner).where(jobs.c.name == reference)
        users_first = case((jobs.c.owner < 0, 1), else_=0)
        by_name = await self._select(
            newest.order_by(users_first, jobs.c.submitted_at.desc(), jobs.c.id.desc()).limit(1)
        )
        return by_name[0] if by_name else None

    async def list_by_prefix(self, prefix: str, *, owner: int | None = None) -> tuple[Job, ...]:
        begin_so = _of_owner(owner).where(func.substr(jobs.c.id, 1, len(prefix)) == prefix)
        return await self._select(begin_so.limit(SHOWN))

    async def list_open(self) -> tuple[Job, ...]:
        holding = select(leases.c.job_id).where(leases.c.state.in_(LIVE))
        chosen = select(jobs).where(or_(jobs.c.status.in_(_OPEN), jobs.c.id.in_(holding)))
        return await self._select(chosen.order_by(jobs.c.submitted_at, jobs.c.id))

    async def list_newest(
        self,
        *,
        limit: int,
        owner: int | None = None,
        before: tuple[datetime, str] | None = None,
        since: datetime | None = None,
        is_over: bool = False,
    ) -> tuple[Job, ...]:
        newest = _of_owner(owner).order_by(jobs.c.submitted_at.desc(), jobs.c.id.desc())
        newest = newest.where(jobs.c.array_id.is_(None))
        if before is not None:
            at, job_id = before
            is_then = (jobs.c.submitted_at == at) & (jobs.c.id < job_id)
            newest = newest.where(or_(jobs.c.submitted_at < at, is_then))
        if since is not None:
            newest = newest.where(jobs.c.submitted_at >= since)
        if is_over:
            newest = newest.where(jobs.c.status.not_in(_OPEN))
        return await self._select(newest.limit(limit))

    async def list_newest_ids(self, *, limit: int, owner: int | None = None) -> tuple[str, ...]:
        newest = select(jobs.c.id).order_by(jobs.c.submitted_at.desc(), jobs.c.id.desc()).limit(limit)
        if owner is not None:
            newest = newest.where(jobs.c.owner == owner)
        return tuple(job_id for (job_id,) in await self._sql.fetch_all(newest))

    async def list_open_firings(self, schedule_id: str) -> tuple[Job, ...]:
        firings = (jobs.c.schedule_id == schedule_id) & jobs.c.due_at.is_not(None)
        chosen = select(jobs).where(firings, jobs.c.status.in_(_OPEN))
        return await self._select(chosen.order_by(jobs.c.due_at))

    async def has_fired(self, schedule_id: str, due_at: datetime) -> bool:
        is_it = (jobs.c.schedule_id == schedule_id) & (jobs.c.due_at == due_at)
        return await self._sql.fetch_first(select(jobs.c.id).where(is_it)) is not None

    async def list_titles(self, job_ids: Collection[str]) -> Mapping[str, JobTitle]:
        said = (jobs.c.name, jobs.c.owner, jobs.c.status, jobs.c.finished_at)
        chosen = select(jobs.c.id, *said).where(jobs.c.id.in_(job_ids))
        return {job_id: JobTitle(*title) for job_id, *title in await self._sql.fetch_all(chosen)}

    async def count_tasks(self, array_ids: Collection[str]) -> Mapping[str, TaskCounts]:
        key = jobs.c.array_id, jobs.c.status
        excused = func.sum(case((jobs.c.excused > 0, 1), else_=0))
        sums = select(*key, func.count(), func.sum(jobs.c.work_done), excused).where(jobs.c.array_id.in_(array_ids))
        found: dict[str, dict[str, int]] = {array_id: {} for array_id in array_ids}
        work: dict[str, timedelta] = {}
        excused_of: dict[str, int] = defaultdict(int)
        for array_id, status, count, done, many in await self._sql.fetch_all(sums.group_by(*key)):
            found[array_id][status] = count
            if status is JobStatus.SUCCEEDED:
                work[array_id] = done
            if status is not JobStatus.FAILED:
                excused_of[array_id] += many
        return {
            id: TaskCounts.of(statuses, work.get(id, timedelta(0)), excused_of[id]) for id, statuses in found.items()
        }

    async def list_tasks(
        self, array_id: str, *, first: int = 0, limit: int, statuses: Collection[JobStatus] | None = None
    ) -> tuple[Job, ...]:
        chosen = select(jobs).where(jobs.c.array_id == array_id, jobs.c.task >= first)
        if statuses is not None:
            chosen = chosen.where(jobs.c.status.in_(statuses))
        return await self._select(chosen.order_by(jobs.c.task).limit(limit))

    async def list_task_numbers(self, array_id: str) -> tuple[int, ...]:
        numbers = select(jobs.c.task).where(jobs.c.array_id == array_id).order_by(jobs.c.task)
        return tuple(task for (task,) in await self._sql.fetch_all(numbers))

    async def list_succeeded_tasks(self, array_id: str) -> Mapping[int, str]:
        chosen = select(jobs.c.task, jobs.c.id).where(jobs.c.array_id == array_id, jobs.c.status == JobStatus.SUCCEEDED)
        return {task: job_id for task, job_id in await self._sql.fetch_all(chosen)}

    async def keep_table(self, job_id: str, text: str) -> None:
        await self._sql.append(array_tables, [{"job_id": job_id, "text": text}])

    async def find_table(self, job_id: str) -> str | None:
        chosen = select(array_tables.c.text).where(array_tables.c.job_id == job_id)
        return next((text for (text,) in await self._sql.fetch_all(chosen)), None)

    async def _select(self, chosen: Any) -> tuple[Job, ...]:
        """Seven queries, however many jobs; nine where tasks of arrays are among them."""
        rows = await self._sql.fetch_all(chosen)
        if not rows:
            return ()
        ids: list[str] = [row[0] for row in rows]
        held: dict[str | None, list[Lease]] = defaultdict(list)
        for lease in await self._leases.select(leases.c.job_id.in_(ids), leases.c.state.in_(LIVE)):
            held[lease.job_id].append(lease)
        known = await self._checkpoints.list_by_jobs(ids)
        newest = {checkpoint.job_id: checkpoint for checkpoint in known if not checkpoint.is_set_aside}
        spent = await self._sum_spent(ids)
        array_of = list(jobs.c.keys()).index("array_id")
        shared, estimates = await self._share_spent([row[0] for row in rows if row[array_of] is not None])
        held_back = await self._ledger.sum_held()
        return tuple(
            record_of(
                Job,
                jobs,
                row,
                leases=tuple(held[row[0]]),
                checkpoint=newest.get(row[0]),
                spent=spent.get(row[0], ZERO) + shared.get(row[0], ZERO),
                is_estimate=row[0] in estimates,
                held=held_back.get(row[0], ZERO),
            )
            for row in rows
        )

    async def _share_spent(self, job_ids: Sequence[str]) -> tuple[dict[str | None, Decimal], set[str | None]]:
        """For machines that several tasks have used: these jobs' shares, and which of them a bill may still change."""
        if not job_ids:
            return {}, set()
        used = select(lease_uses.c.lease_id).where(lease_uses.c.job_id.in_(job_ids))
        shared = await self._leases.select(leases.c.id.in_(used), leases.c.id.in_(SHARED))
        return share_spent(shared, await self._ledger.sum_by_day([lease.id for lease in shared]) if shared else {})

    async def _sum_spent(self, job_ids: Sequence[str]) -> dict[str, Decimal]:
        """On machines of their own."""
        entry = ledger_entries.c
        spend = select(entry.job_id, func.sum(entry.amount)).where(
            entry.job_id.in_(job_ids), entry.type.in_(SPEND_TYPES), entry.lease_id.not_in(SHARED)
        )
        return {job_id: amount for job_id, amount in await self._sql.fetch_all(spend.group_by(entry.job_id))}


def _of_owner(owner: int | None) -> Select[Any]:
    """Everybody's, or that one's."""
    return select(jobs) if owner is None else select(jobs).where(jobs.c.owner == owner)
