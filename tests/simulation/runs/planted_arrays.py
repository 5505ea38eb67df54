"""Planted bugs of arrays."""

from __future__ import annotations

from typing import Any

from autopilot.agent.shipped.machine import Machine
from autopilot.domain import evolve, task_shares
from autopilot.domain.money import from_nano
from autopilot.domain.zones import share_out
from autopilot.engine import reuse
from autopilot.policy import array_measures
from autopilot.policy.guard import Exposure
from autopilot.policy.width import choose_width
from autopilot_lab.memory_store.jobs import MemoryJobs
from autopilot_lab.memory_store.rows import Rows
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
    """Any value is the id of a job."""

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

    return [(array_measures, "choose_width", wide)]


@bug("a task goes on from the checkpoint of the task that had its machine before")
def _mixed_checkpoints() -> Patches:
    return [(Machine, "is_of_other", lambda self: False)]


@bug("a nano-dollar is lost where a machine's cost is shared among its tasks")
def _lossy_split() -> Patches:
    def lossy(amount: Any, weights: Any) -> Any:
        *first, last = share_out(amount, weights)
        return [*first, last - from_nano(1)] if last > 0 else [*first, last]

    return [(task_shares, "share_out", lossy)]


@bug("a machine that fails every task gets one after another")
def _black_hole_fed() -> Patches:
    return [(evolve, "speaks_of_machine", lambda *_: False), (reuse, "RUNS_PER_MACHINE", 99)]
