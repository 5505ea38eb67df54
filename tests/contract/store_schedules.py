"""What every store keeps of schedules and their firings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from autopilot.domain.cadence import Cadence
from autopilot.domain.code import CodeCopy, JobCode
from autopilot.domain.job import JobStatus
from autopilot.domain.ledger import EntryType
from autopilot.domain.schedule import Schedule, ScheduleReason, ScheduleStatus
from autopilot.ports.store import ConstraintViolated, OwnerTotals, Store
from tests.store_records import DAY, START, a_job, a_lease, an_entry, forgotten, records

HOUR = timedelta(hours=1)


def a_schedule(id: str = "schedule-1", after: int = 0, **changes: Any) -> Schedule:
    spec = replace(a_job().spec, schedule=Cadence("0 2 * * *"))
    made = START + after * HOUR
    schedule = Schedule(id, spec, 1000, ScheduleStatus.ACTIVE, ScheduleReason.SUBMITTED, made, made)
    return replace(schedule, **changes)


class WhatAStoreKeepsOfSchedules:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(schedule=records(Schedule))
    async def test_a_schedule_comes_back_equal(self, store: Store, schedule: Schedule) -> None:
        async with forgotten(store) as work:
            await work.schedules.save(schedule)
            assert await work.schedules.find(schedule.id) == schedule
            asked_twice = [schedule.id, "none", schedule.id]
            assert await work.schedules.list_by_ids(asked_twice) == (schedule,)

    async def test_schedules_are_found_and_listed(self, store: Store) -> None:
        ended = a_schedule("schedule-2", 2, status=ScheduleStatus.ENDED)
        others, oldest = a_schedule("schedule-3", 3, owner=-1), a_schedule(status=ScheduleStatus.PAUSED)
        name = oldest.spec.name
        async with store.transaction() as work:
            for each in (ended, others, a_schedule()):
                await work.schedules.save(each)
            await work.schedules.save(oldest)
            assert await work.schedules.list_live() == (oldest, others)
            assert await work.schedules.list_newest(limit=2) == (others, ended)
            assert await work.schedules.list_newest(limit=9, owner=1000) == (ended, oldest)
            assert await work.schedules.find(name, owner=1000) == oldest, "one that goes on before one that ended"
            assert await work.schedules.find(name) == others
            assert await work.schedules.find("schedule-1", owner=-1) is None
            await work.schedules.save(replace(oldest, status=ScheduleStatus.ENDED))
            found = await work.schedules.find(name, owner=1000)
            assert found is not None
            assert found.id == "schedule-2"
            assert await work.schedules.find("other") is None

    async def test_a_firing_is_one_job(self, store: Store) -> None:
        firing = a_job(schedule_id="schedule-1", due_at=START)
        async with store.transaction() as work:
            await work.jobs.save(firing)
            await work.jobs.save(firing)
            await work.jobs.save(a_job("job-000002", schedule_id="schedule-1", due_at=START + HOUR))
            await work.jobs.save(a_job("job-000003", schedule_id="schedule-2", due_at=START))
            await work.jobs.save(a_job("job-000004"))
            await work.jobs.save(a_job("job-000005"))
            assert await work.jobs.has_fired("schedule-1", START)
            assert not await work.jobs.has_fired("schedule-1", START + 2 * HOUR)
        with pytest.raises(ConstraintViolated):
            await self._fire_again(store)
        async with store.snapshot() as work:
            assert await work.jobs.find("job-000006") is None

    async def test_firings_that_are_not_over_are_listed_as_they_were_due(self, store: Store) -> None:
        later, first = (
            a_job(id, schedule_id="schedule-1", due_at=START + after * HOUR)
            for id, after in (("job-000001", 2), ("job-000002", 1))
        )
        async with store.transaction() as work:
            await work.jobs.save_all([later, first, a_job("job-000003")])
            await work.jobs.save(a_job("job-000004", schedule_id="schedule-2", due_at=START))
            over = a_job("job-000005", schedule_id="schedule-1", due_at=START, status=JobStatus.CANCELLED)
            await work.jobs.save(over)
            task = a_job("job-000006", schedule_id="schedule-1", array_id="job-000001", task=0)
            await work.jobs.save(task)
            assert await work.jobs.list_open_firings("schedule-1") == (first, later), "a task of one is none"
            assert await work.jobs.list_open_firings("schedule-3") == ()

    async def test_a_table_is_kept_with_its_schedule(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.schedules.save(a_schedule())
            await work.schedules.keep_table("schedule-1", 'LR\n"a,\n\u00fc"\n')
        async with store.snapshot() as work:
            assert await work.schedules.find_table("schedule-1") == 'LR\n"a,\n\u00fc"\n'
            assert await work.schedules.find_table("schedule-2") is None
        with pytest.raises(ConstraintViolated):
            async with store.transaction() as work:
                await work.schedules.keep_table("schedule-2", "LR\n1\n")

    async def _fire_again(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("job-000006", schedule_id="schedule-1", due_at=START))

    async def test_code_is_kept_as_long_as_its_schedule_lives(self, store: Store) -> None:
        copy, code = CodeCopy("copy", 1000, "a" * 64, 3, 2700, 1, 400, START), JobCode("copy", "a" * 64, 3, 2700, 1)
        async with store.transaction() as work:
            await work.code_copies.save(copy)
            await work.schedules.save(a_schedule(code=code))
            assert await work.code_copies.list_unused() == ()
            await work.schedules.save(a_schedule(code=code, status=ScheduleStatus.ENDED))
            assert await work.code_copies.list_unused() == (copy,)

    async def test_the_sum_of_a_schedule_is_that_of_its_firings(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),), schedule_id="schedule-1", due_at=START))
            await work.jobs.save(a_job("job-000002", leases=(a_lease("lease-2", "job-000002"),)))
            await work.ledger.post([an_entry("e1", "1.5"), an_entry("e2", "0.25", day=DAY + timedelta(days=1))])
            await work.ledger.post([an_entry("e3", "7", lease_id="lease-2", job_id="job-000002")])
            await work.ledger.post([an_entry("e4", "0.5", type=EntryType.RESERVE)])
            assert (await work.ledger.sum_schedule("schedule-1", None)).posted == Decimal("1.75")
            task = a_job("job-000003", array_id="job-000001", task=0, schedule_id="schedule-1")
            await work.jobs.save(replace(task, leases=(a_lease("lease-3", "job-000003"),)))
            await work.ledger.post([an_entry("e5", "2", lease_id="lease-3", job_id="job-000003")])
            assert (await work.ledger.sum_schedule("schedule-1", None)).posted == Decimal("3.75"), "its tasks too"
            assert (await work.ledger.sum_schedule("schedule-1", DAY + timedelta(days=1))).posted == Decimal("0.25")
            assert await work.ledger.sum_schedule("schedule-2", None) == OwnerTotals(Decimal(0), Decimal(0))
