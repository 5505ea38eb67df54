"""What every store keeps of what machines read of themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.readings import MachineReading
from autopilot.ports.store import ConstraintViolated, Store
from tests.store_records import START, a_job, a_lease, forgotten, records

HOUR = timedelta(hours=1)


def a_machine_reading(lease_id: str = "lease-1", after: int = 0, busy: float | None = 0.97) -> MachineReading:
    return MachineReading(lease_id, START + after * timedelta(minutes=5), busy, 0.875, 12 << 30, 3.1, None)


class WhatAStoreKeepsOfMachines:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(reading=records(MachineReading, lease_id="lease-1"))
    async def test_a_reading_comes_back_equal(self, store: Store, reading: MachineReading) -> None:
        async with forgotten(store) as work:
            await work.leases.save(a_lease(job_id=None))
            await work.machine_readings.add([reading])
            assert await work.machine_readings.list_by_lease("lease-1", limit=9) == (reading,)

    async def test_the_newest_of_one_machine_in_their_order(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(), a_lease("lease-2", state=LeaseState.GONE))))
            await work.machine_readings.add([a_machine_reading(after=after) for after in (2, 0, 1)])
            await work.machine_readings.add([a_machine_reading("lease-2"), a_machine_reading(after=2, busy=0.5)])
            await work.machine_readings.add([])
        async with store.snapshot() as work:
            newest = (a_machine_reading(after=1), a_machine_reading(after=2))
            assert await work.machine_readings.list_by_lease("lease-1", limit=2) == newest
            assert await work.machine_readings.list_by_lease("lease-2", limit=2) == (a_machine_reading("lease-2"),)
            assert await work.machine_readings.list_by_lease("lease-3", limit=2) == ()

    async def test_a_reading_of_a_lease_that_is_not_there_is_refused(self, store: Store) -> None:
        with pytest.raises(ConstraintViolated):
            async with store.transaction() as work:
                await work.machine_readings.add([a_machine_reading("unknown")])

    async def test_readings_of_jobs_long_over_are_forgotten(self, store: Store) -> None:
        over = a_job(status=JobStatus.FAILED, finished_at=START, leases=(a_lease(state=LeaseState.GONE),))
        going = a_job("job-000002", status=JobStatus.RUNNING, leases=(a_lease("lease-2", "job-000002"),))
        async with store.transaction() as work:
            for job in (over, going):
                await work.jobs.save(job)
            await work.machine_readings.add(
                [a_machine_reading(), a_machine_reading(after=1), a_machine_reading("lease-2")]
            )
            assert await work.machine_readings.forget(START) == 0
            assert await work.machine_readings.forget(START + HOUR) == 2
            assert await work.machine_readings.forget(START + HOUR) == 0
        async with store.snapshot() as work:
            assert await work.machine_readings.list_by_lease("lease-1", limit=9) == ()
            assert len(await work.machine_readings.list_by_lease("lease-2", limit=9)) == 1
