"""What must hold of arrays: of their tasks, of machines that go from one to the next, and of what each has cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.task_shares import share_spent
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box

SOON_S = 30.0
"""A failure within this is one within a minute, however late it is seen."""


class Arrays:
    """Reads jobs as they are committed."""

    def __init__(
        self, ground: Ground, boxes: Callable[[], Iterable[Box]], add_violation: Callable[[str, str], None]
    ) -> None:
        self._ground = ground
        self._boxes = boxes
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

    def change_lease(self, before: Lease | None, after: Lease, tables: MemoryTables) -> None:
        if before is None or len(after.uses) <= max(len(before.uses), 1):
            return
        box = next((box for box in self._boxes() if box.lease_id == after.id), None)
        if box is None or not box.failures:
            return
        last_id, took_s = box.failures[-1]
        failed = self._jobs(tables).get(last_id or "")
        if len({job_id for job_id, _ in box.failures}) > 1:
            self._add_violation("S34", f"{box.key} failed {len(box.failures)} runs in a row and gets another task")
        elif took_s < SOON_S and failed is not None and not failed.excused:
            self._add_violation("S34", f"{box.key} failed a task after {took_s:.0f} s and gets another one")

    def look(self) -> None:
        committed = self._ground.committed
        for lease in committed.get("leases", {}).values():
            if not lease.is_shared:
                continue
            posted = committed.get("posted", {}).get(lease.id, {})
            shares, _ = share_spent([lease], {lease.id: posted})
            lost = sum(posted.values(), ZERO) - sum(shares.values(), ZERO)
            if lost:
                self._add_violation("S33", f"the tasks of {lease.id} have cost {lost} less than it")

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
