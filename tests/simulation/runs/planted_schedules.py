"""Planted bugs of schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.engine import engine, firings, purses
from autopilot_lab.memory_store.jobs import MemoryJobs
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.runs.bug import Patches, bug


async def _no(*_: Any) -> bool:
    return False


def _put_without_index(self: MemoryTables, job: Any) -> None:
    put_job(self, replace(job, schedule_id=None))
    if job.schedule_id is not None:
        self.jobs.put(job.id, replace(job, leases=(), checkpoint=None, spent=ZERO, held=ZERO))


put_job = MemoryTables.put_job


@bug("a firing is made again: neither the schedule nor the ledger remembers which due instants have fired")
def _firing_doubled() -> Patches:
    async def forgetful(self: Any, uow: Any, schedule_id: Any, now: Any) -> None:
        before = await uow.schedules.find(schedule_id)
        await look(self, uow, schedule_id, now)
        after = await uow.schedules.find(schedule_id)
        await uow.schedules.save(replace(after, looked_until=before.looked_until))

    look = firings.Firings._look
    return [
        (firings.Firings, "_look", forgetful),
        (MemoryJobs, "has_fired", _no),
        (MemoryTables, "put_job", _put_without_index),
    ]


@bug("a firing begins although an earlier one is not over")
def _firing_overlaps() -> Patches:
    spec_of = firings.firing_spec
    return [
        (firings, "_refusal", lambda *_: None),
        (firings, "firing_spec", lambda schedule, due, _: spec_of(schedule, due)),
    ]


@bug("nothing bounds the firings of a schedule together")
def _schedule_without_budget() -> Patches:
    async def of_tokens_alone(*given: Any) -> Any:
        found = await read(*given)
        return {
            job_id: tuple(purse for purse in of_job if purse.reason is not Reason.OVER_SCHEDULE_BUDGET)
            for job_id, of_job in found.items()
        }

    read = purses.read_purses
    return [(engine, "read_purses", of_tokens_alone)]
