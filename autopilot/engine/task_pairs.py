"""Arrays that follow others task by task: which of their tasks may begin, and which never will."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from autopilot.domain.after import paired_with
from autopilot.domain.inputs import left_inputs
from autopilot.domain.job import Job, JobSpec
from autopilot.ports.store import UnitOfWork

Ids = Mapping[int, str]
"""Ids of tasks, by number."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """``succeeded``: of each array that is followed, its tasks that have succeeded. ``begun``: own tasks."""

    succeeded: Mapping[str, Ids]
    begun: Collection[int]
    are_over: bool
    """All of those arrays are: no more of their tasks will succeed, unless somebody has them retried."""

    def may_begin(self, task: int) -> bool:
        return all(task in ids for ids in self.succeeded.values())

    def partners(self, task: int) -> dict[str, str]:
        """By array, the id of its task of that number, which has succeeded."""
        return {array_id: ids[task] for array_id, ids in self.succeeded.items()}

    def count_barred(self, count: int) -> int:
        """How many of ``count`` tasks will never start, because one that they follow has ended without success."""
        if not self.are_over:
            return 0
        return sum(task not in self.begun and not self.may_begin(task) for task in range(count))


async def read_pairing(uow: UnitOfWork, array: Job) -> Pairing | None:
    """None: it follows no other. A task counts as earlier transactions have left it."""
    followed = paired_with(array.spec.after)
    if not followed:
        return None
    titles = await uow.jobs.list_titles(followed)
    succeeded = {array_id: await uow.jobs.list_succeeded_tasks(array_id) for array_id in followed}
    are_over = all(array_id not in titles or titles[array_id].status.is_final for array_id in followed)
    return Pairing(succeeded, frozenset(await uow.jobs.list_task_numbers(array.id)), are_over)


def takes_own_inputs(spec: JobSpec) -> bool:
    """Each task of the array takes what another task has left: a machine's inputs are those of one task."""
    followed = paired_with(spec.after)
    return any(left.job in followed for left in left_inputs(spec.inputs))
