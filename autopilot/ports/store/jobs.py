"""Jobs and their checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Checkpoint, Job, JobStatus


class JobTitle(NamedTuple):
    name: str
    owner: int
    status: JobStatus
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> JobTitle:
        return cls(job.spec.name, job.owner, job.status, job.finished_at)


class Jobs(Protocol):
    """A job comes with its leases that are not over, their spans, its newest checkpoint, and what it spent and holds
    back.
    """

    async def save(self, job: Job) -> None:
        """Insert or update the job, its leases and their spans."""
        ...

    async def save_all(self, jobs: Collection[Job]) -> None:
        """The same for many at once."""
        ...

    async def find(self, reference: str, *, owner: int | None = None) -> Job | None:
        """By id, by unique id prefix (at least 6 characters), or the newest of that name, users' before tokens'.

        ``owner``: among that one's jobs alone.
        """
        ...

    async def list_by_prefix(self, prefix: str, *, owner: int | None = None) -> tuple[Job, ...]:
        """A few of the jobs, or of that owner's, whose ids begin so."""
        ...

    async def list_open(self) -> tuple[Job, ...]:
        """Jobs that are not final or still have a lease that is not over, oldest first."""
        ...

    async def list_newest(
        self,
        *,
        limit: int,
        owner: int | None = None,
        before: tuple[datetime, str] | None = None,
        since: datetime | None = None,
        is_over: bool = False,
    ) -> tuple[Job, ...]:
        """Of all, or of that owner's: newest first, finished ones included, an array's tasks not.

        ``before``: those that come after the job submitted then, of that id; ``since``: submitted then or later;
        ``is_over``: those whose status is final.
        """
        ...

    async def list_newest_ids(self, *, limit: int, owner: int | None = None) -> tuple[str, ...]:
        """Ids of all jobs, or of that owner's: newest first, finished ones included."""
        ...

    async def list_open_firings(self, schedule_id: str) -> tuple[Job, ...]:
        """Jobs of that schedule that are not final, in the order in which they were due."""
        ...

    async def has_fired(self, schedule_id: str, due_at: datetime) -> bool:
        """Whether a job is the schedule's firing that was due then. To save a second one is refused
        (``ConstraintViolated``)."""
        ...

    async def list_titles(self, job_ids: Collection[str]) -> Mapping[str, JobTitle]:
        """By id; what is no job's id is left out."""
        ...

    async def count_tasks(self, array_ids: Collection[str]) -> Mapping[str, TaskCounts]:
        """By array, of each that is named: how its tasks stand that have begun."""
        ...

    async def list_tasks(
        self, array_id: str, *, first: int = 0, limit: int, statuses: Collection[JobStatus] | None = None
    ) -> tuple[Job, ...]:
        """Tasks of the array that have begun, from that number on, in order. ``statuses``: those that stand so."""
        ...

    async def list_task_numbers(self, array_id: str) -> tuple[int, ...]:
        """Numbers of all tasks that have begun, in order."""
        ...

    async def list_succeeded_tasks(self, array_id: str) -> Mapping[int, str]:
        """Ids of the tasks of the array that have succeeded, by number."""
        ...

    async def keep_table(self, job_id: str, text: str) -> None:
        """The table that came with an array, once: a row for each of its tasks."""
        ...

    async def find_table(self, job_id: str) -> str | None:
        """None: none came with it."""
        ...


class Checkpoints(Protocol):
    async def add(self, checkpoint: Checkpoint) -> None: ...

    async def remove(self, checkpoint: Checkpoint) -> None: ...

    async def set_aside(self, checkpoint: Checkpoint, is_set_aside: bool) -> None: ...

    async def list_by_job(self, job_id: str) -> tuple[Checkpoint, ...]:
        """By ``order``, the greatest first: those that are set aside come last."""
        ...
