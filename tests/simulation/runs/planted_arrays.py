"""Planted bugs of arrays."""

from __future__ import annotations

from typing import Any

from autopilot.engine import arrays
from autopilot.policy.guard import Exposure
from autopilot.policy.width import choose_width
from autopilot.store.memory.jobs import MemoryJobs
from autopilot.store.memory.rows import Rows
from tests.simulation.runs.bug import Patches, bug


@bug("a task of an array begins although it has begun")
def _task_twice() -> Patches:
    """Neither is asked which tasks there are, nor does the ledger mind."""

    async def none_yet(*_: Any) -> tuple[int, ...]:
        return ()

    def get(self: Any, key: Any) -> Any:
        is_place = isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int) and len(str(key[0])) == 26
        return None if is_place and find(self, key) in known_tasks else find(self, key)

    find, known_tasks = Rows.get, _AnyJob()
    return [(MemoryJobs, "list_task_numbers", none_yet), (Rows, "get", get)]


class _AnyJob:
    """Whatever is the id of a job."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str)


@bug("the tasks of an array do not share its budget")
def _budget_of_none() -> Patches:
    return [(Exposure, "as_limited", lambda self, job, params: job)]


@bug("an array has as many tasks at once as there are machines")
def _unbounded_width() -> Patches:
    def wide(array: Any, *rest: Any) -> Any:
        width = choose_width(array, *rest)
        return type(width)(width.tasks + 3, width.bound, width.cheap, width.for_deadline, width.payable)

    return [(arrays, "choose_width", wide)]
