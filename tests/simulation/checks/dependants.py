"""What must hold of jobs that wait for others: nothing is rented for one before they have ended as it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autopilot.domain.after import On, paired_with
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.ground.ground import Ground

WANTED = {
    On.OK: frozenset({JobStatus.SUCCEEDED}),
    On.FAIL: frozenset({JobStatus.FAILED, JobStatus.CANCELLED}),
    On.ANY: frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}),
    On.SAME_TASK: frozenset(JobStatus),  # of the whole nothing is asked
}


class Dependants:
    """Reads leases and jobs as they are committed, and how the jobs that they wait for stand then."""

    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation

    def change_lease(self, before: Lease | None, after: Lease, tables: MemoryTables) -> None:
        if after.job_id is None or (before is not None and before.job_id == after.job_id):
            return
        jobs = self._jobs(tables)
        job = jobs.get(after.job_id)
        if job is not None and job.array_id is not None:
            self._follows(after, job, jobs)
        for each in () if job is None else job.spec.after:
            status = jobs[each.job].status if each.job in jobs else None
            if status not in WANTED[each.on]:
                what = f"lease {after.id} of job {after.job_id[-1]}, while {each.job[-1]} is {status}, not {each.on}"
                self._add_violation("S28", what)

    def _follows(self, lease: Lease, task: Job, jobs: Mapping[str, Job]) -> None:
        """A machine for a task of an array that follows others task by task."""
        assert task.array_id is not None, "a task"
        for followed in paired_with(jobs[task.array_id].spec.after):
            ends = [job.status for job in jobs.values() if job.array_id == followed and job.task == task.task]
            if ends != [JobStatus.SUCCEEDED]:
                self._add_violation(
                    "S28", f"lease {lease.id} of task {task.task}, whose number in {followed[-1]} {ends}"
                )

    def change_job(self, before: Job | None, after: Job, tables: MemoryTables) -> None:
        if before is None:
            return
        was, is_now = before.predecessors_ended_at, after.predecessors_ended_at
        if was is not None and was != is_now:
            self._add_violation("S28", f"job {after.id[-1]} may begin at {was}, then at {is_now}")
        has_failed = after.reason is Reason.DEPENDENCY_FAILED and before.reason is not Reason.DEPENDENCY_FAILED
        jobs = self._jobs(tables)
        ends = [(each, jobs[each.job].status) for each in after.spec.after if each.job in jobs]
        is_barred = any(jobs[each].status.is_final for each in paired_with(after.spec.after) if each in jobs)
        if (
            has_failed
            and not is_barred
            and not any(status.is_final and status not in WANTED[each.on] for each, status in ends)
        ):
            self._add_violation("S28", f"job {after.id[-1]} fails for others, and none of them has ended otherwise")

    def is_held_up(self, job: Job) -> bool:
        """One that it waits for goes on."""
        jobs = self._ground.committed.get("jobs", {})
        return any(not jobs[each.job].status.is_final for each in job.spec.after if each.job in jobs)

    def _jobs(self, tables: MemoryTables) -> Mapping[str, Any]:
        """With what is about to be committed."""
        changed = {job_id: job for job_id, job in tables.jobs.changes.items() if job is not None}
        return {**self._ground.committed.get("jobs", {}), **changed}
