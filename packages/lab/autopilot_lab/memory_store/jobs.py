"""Jobs in memory with what belongs to them, and their checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.money import ZERO
from autopilot.domain.task_shares import share_spent
from autopilot.ports.store.jobs import JobTitle
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.leases import gather_leases, require
from autopilot_lab.memory_store.ledger import sum_held_of
from autopilot_lab.memory_store.tables import MemoryTables

_MIN_PREFIX_LENGTH = 6
SHOWN = 5


class MemoryJobs(MemoryRepository):
    __slots__ = ()

    async def save(self, job: Job) -> None:
        await self.save_all((job,))

    async def save_all(self, jobs: Collection[Job]) -> None:
        with self._access.write() as tables:
            for job in jobs:
                tables.put_job(job)
            # Those that give up their slot go first.
            for lease in sorted((lease for job in jobs for lease in job.leases), key=lambda lease: lease.is_wanted):
                tables.put_lease(lease)

    async def find(self, reference: str, *, owner: int | None = None) -> Job | None:
        tables = self._access.read()
        by_id = tables.jobs.get(reference)
        if by_id is not None and owner in (None, by_id.owner):
            return _assemble(tables, by_id)
        jobs = _of_owner(tables, owner)
        if len(reference) >= _MIN_PREFIX_LENGTH:
            by_prefix = [job for job in jobs if job.id.startswith(reference)]
            if len(by_prefix) == 1:
                return _assemble(tables, by_prefix[0])
        named = [job for job in jobs if job.spec.name == reference]
        return _assemble(tables, max(named, key=lambda job: (job.owner >= 0, *_age_order(job)))) if named else None

    async def list_by_prefix(self, prefix: str, *, owner: int | None = None) -> tuple[Job, ...]:
        tables = self._access.read()
        found = [job for job in _of_owner(tables, owner) if job.id.startswith(prefix)]
        return tuple(_assemble(tables, job) for job in found[:SHOWN])

    async def list_open(self) -> tuple[Job, ...]:
        tables = self._access.read()
        holding = {require(tables.leases.get(id)).job_id for id in tables.live_leases}
        chosen = {*tables.open_jobs, *(job_id for job_id in holding if job_id is not None)}
        jobs = [job for job in map(tables.jobs.get, chosen) if job is not None]
        return tuple(_assemble(tables, job) for job in sorted(jobs, key=_age_order))

    async def list_newest(
        self,
        *,
        limit: int,
        owner: int | None = None,
        before: tuple[datetime, str] | None = None,
        since: datetime | None = None,
        is_over: bool = False,
    ) -> tuple[Job, ...]:
        tables = self._access.read()
        newest = sorted(_of_owner(tables, owner), key=_age_order, reverse=True)
        newest = [job for job in newest if job.array_id is None]
        newest = [job for job in newest if before is None or _age_order(job) < before]
        newest = [job for job in newest if since is None or job.submitted_at >= since]
        newest = [job for job in newest if job.status.is_final or not is_over]
        return tuple(_assemble(tables, job) for job in newest[:limit])

    async def list_newest_ids(self, *, limit: int, owner: int | None = None) -> tuple[str, ...]:
        return tuple(job.id for job in await self.list_newest(limit=limit, owner=owner))

    async def list_open_firings(self, schedule_id: str) -> tuple[Job, ...]:
        tables = self._access.read()
        known = filter(None, map(tables.jobs.get, tables.open_jobs))
        firings = [(job.due_at, job) for job in known if job.schedule_id == schedule_id and job.due_at is not None]
        return tuple(_assemble(tables, job) for _, job in sorted(firings, key=lambda firing: firing[0]))

    async def has_fired(self, schedule_id: str, due_at: datetime) -> bool:
        return self._access.read().firings.get((schedule_id, due_at)) is not None

    async def list_titles(self, job_ids: Collection[str]) -> Mapping[str, JobTitle]:
        found = filter(None, map(self._access.read().jobs.get, job_ids))
        return {job.id: JobTitle.of(job) for job in found}

    async def count_tasks(self, array_ids: Collection[str]) -> Mapping[str, TaskCounts]:
        return {array_id: _count(_tasks_of(self._access.read(), array_id)) for array_id in array_ids}

    async def list_tasks(
        self, array_id: str, *, first: int = 0, limit: int, statuses: Collection[JobStatus] | None = None
    ) -> tuple[Job, ...]:
        tables = self._access.read()
        found = [job for job in _tasks_of(tables, array_id) if job.task is not None and job.task >= first]
        found = [job for job in found if statuses is None or job.status in statuses]
        return tuple(_assemble(tables, job) for job in found[:limit])

    async def list_task_numbers(self, array_id: str) -> tuple[int, ...]:
        return tuple(job.task for job in _tasks_of(self._access.read(), array_id) if job.task is not None)

    async def list_succeeded_tasks(self, array_id: str) -> Mapping[int, str]:
        tasks = _tasks_of(self._access.read(), array_id)
        return {job.task: job.id for job in tasks if job.task is not None and job.status is JobStatus.SUCCEEDED}

    async def keep_table(self, job_id: str, text: str) -> None:
        with self._access.write() as tables:
            tables.array_tables.put(job_id, text)

    async def find_table(self, job_id: str) -> str | None:
        return self._access.read().array_tables.get(job_id)


class MemoryCheckpoints(MemoryRepository):
    __slots__ = ()

    async def add(self, checkpoint: Checkpoint) -> None:
        with self._access.write() as tables:
            tables.put_checkpoint(checkpoint)

    async def list_by_job(self, job_id: str) -> tuple[Checkpoint, ...]:
        return tuple(reversed(_gather_checkpoints(self._access.read(), job_id)))

    async def remove(self, checkpoint: Checkpoint) -> None:
        with self._access.write() as tables:
            tables.remove_checkpoint(checkpoint)

    async def set_aside(self, checkpoint: Checkpoint, is_set_aside: bool) -> None:
        with self._access.write() as tables:
            tables.set_checkpoint_aside(checkpoint, is_set_aside)


def _tasks_of(tables: MemoryTables, array_id: str) -> list[Job]:
    found = (require(tables.jobs.get(job_id)) for job_id in tables.tasks_by_array.get(array_id) or ())
    return sorted(found, key=lambda job: job.task or 0)


def _count(tasks: list[Job]) -> TaskCounts:
    work = sum((job.work_done for job in tasks if job.status is JobStatus.SUCCEEDED), timedelta(0))
    excused = sum(job.excused > 0 and job.status is not JobStatus.FAILED for job in tasks)
    return TaskCounts.of(Counter(job.status for job in tasks), work, excused)


def _of_owner(tables: MemoryTables, owner: int | None) -> list[Job]:
    return [job for job in tables.jobs.values() if owner in (None, job.owner)]


def _assemble(tables: MemoryTables, job: Job) -> Job:
    """The job with the leases that are not over, its newest checkpoint, and what it spent and holds back."""
    held = (id for id in tables.leases_by_job.get(job.id) or () if tables.live_leases.get(id))
    checkpoints = [each for each in _gather_checkpoints(tables, job.id) if not each.is_set_aside]
    used = gather_leases(tables, tables.leases_used_by.get(job.id) or ())
    shared = [lease for lease in used if len(lease.uses) > 1]
    posted = {lease.id: tables.posted.get(lease.id) or {} for lease in shared}
    shares, estimates = share_spent(shared, posted)
    of_own = (tables.spent_by_job.get(job.id) or {}).items()
    return replace(
        job,
        leases=gather_leases(tables, held),
        checkpoint=checkpoints[-1] if checkpoints else None,
        spent=sum((spent for id, spent in of_own if id not in posted), shares.get(job.id, ZERO)),
        is_estimate=job.id in estimates,
        held=sum_held_of(tables, job.id),
    )


def _gather_checkpoints(tables: MemoryTables, job_id: str) -> list[Checkpoint]:
    """Oldest first."""
    found = [require(tables.checkpoints.get(key)) for key in tables.checkpoints_by_job.get(job_id) or ()]
    return sorted(found, key=lambda checkpoint: (checkpoint.order, checkpoint.verified_at))


def _age_order(job: Job) -> tuple[datetime, str]:
    return job.submitted_at, job.id
