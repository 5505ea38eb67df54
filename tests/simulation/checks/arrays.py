"""What must hold of arrays: each task is there once, and no more of them are open than the array allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autopilot.domain.job import Job, JobStatus
from autopilot.store.memory.tables import MemoryTables
from tests.simulation.ground.ground import Ground


class Arrays:
    """Reads jobs as they are committed."""

    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation

    def change_job(self, before: Job | None, after: Job, tables: MemoryTables) -> None:
        if after.array_id is None or (before is not None and not _begins(before, after)):
            return
        jobs = self._jobs(tables)
        array, tasks = jobs[after.array_id], [job for job in jobs.values() if job.array_id == after.array_id]
        spec = array.spec.array
        assert spec is not None, "of an array"
        named = f"task {after.task} of {array.id[-1]}"
        if after.task is None or not 0 <= after.task < spec.count:
            self._add_violation("S31", f"{named}, which has {spec.count}")
        if sum(job.task == after.task for job in tasks) > 1:
            self._add_violation("S31", f"{named} is there twice")
        at_work = [job for job in tasks if not job.status.is_final and job.status is not JobStatus.PARKED]
        if before is None and len(at_work) > spec.parallel:
            self._add_violation("S31", f"{named} begins beside {len(at_work) - 1}, {spec.parallel} may be open at once")
        if before is None and array.status.is_final:
            self._add_violation("S31", f"{named} begins, and the array is {array.status}")

    def is_finished(self, job: Job) -> bool:
        """Its command has ended well on some machine; of an array, that of as many tasks as it needs."""
        finished = self._ground.finished
        if job.spec.array is None:
            return job.id in finished
        return len(finished.intersection(self.with_tasks(job.id))) >= job.spec.array.needed

    def with_tasks(self, job_id: str) -> list[str]:
        """The job, and all tasks of it."""
        jobs = self._ground.committed.get("jobs", {}).values()
        return [job_id, *(job.id for job in jobs if job.array_id == job_id)]

    def _jobs(self, tables: MemoryTables) -> Mapping[str, Any]:
        """With what is about to be committed."""
        changed = {job_id: job for job_id, job in tables.jobs.changes.items() if job is not None}
        return {**self._ground.committed.get("jobs", {}), **changed}


def _begins(before: Job, after: Job) -> bool:
    return before.status.is_final and not after.status.is_final
