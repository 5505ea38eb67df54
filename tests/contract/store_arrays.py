"""What every store keeps of arrays and their tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Billing, LeaseState, Span, TaskUse
from autopilot.domain.ledger import EntryType
from autopilot.domain.spend import report
from autopilot.ports.store import ConstraintViolated, OwnerTotals, Store
from tests.store_records import START, a_job, a_lease, an_entry

HOUR = timedelta(hours=1)
LATER = START + 9 * HOUR


class WhatAStoreKeepsOfArrays:
    async def test_tasks_are_counted_by_where_they_stand_and_listed_in_order(self, store: Store) -> None:
        statuses = (
            (7, JobStatus.SUCCEEDED), (2, JobStatus.SUCCEEDED), (0, JobStatus.RUNNING), (1, JobStatus.FAILED),
            (3, JobStatus.PARKED), (5, JobStatus.PENDING),
        )  # fmt: skip
        async with store.transaction() as work:
            await work.jobs.save(a_job("array-1"))
            for task, status in statuses:
                more: dict[str, Any] = {"array_id": "array-1", "task": task, "status": status, "work_done": HOUR}
                await work.jobs.save(a_job(f"task-{task}", **more))
            await work.jobs.save(a_job("of-another", array_id="array-2", task=7))
            counts = await work.jobs.count_tasks(["array-1", "none"])
            assert counts["array-1"] == TaskCounts(3, 1, 1, 1, 0, succeeded=2, failed=1, work=2 * HOUR)
            assert (counts["array-1"].begun, counts["array-1"].active) == (6, 2)
            assert counts["none"] == TaskCounts()
            assert await work.jobs.list_task_numbers("array-1") == (0, 1, 2, 3, 5, 7)
            listed = await work.jobs.list_tasks("array-1", first=1, limit=3)
            assert [job.task for job in listed] == [1, 2, 3]
            over = await work.jobs.list_tasks("array-1", limit=9, statuses=[JobStatus.SUCCEEDED, JobStatus.FAILED])
            assert [job.id for job in over] == ["task-1", "task-2", "task-7"]
            assert [job.id for job in await work.jobs.list_newest(limit=9)] == ["array-1"], "tasks are no lines of it"

    async def test_a_task_is_there_once(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("first", array_id="array-1", task=3))
        with pytest.raises(ConstraintViolated):
            async with store.transaction() as work:
                await work.jobs.save(a_job("second", array_id="array-1", task=3))
        async with store.transaction() as work:
            await work.jobs.save(a_job("first", array_id="array-1", task=3, status=JobStatus.RUNNING))
            await work.jobs.save(a_job("elsewhere", array_id="array-2", task=3))
            assert await work.jobs.list_task_numbers("array-1") == (3,)
            assert await work.jobs.list_succeeded_tasks("array-1") == {}
            await work.jobs.save(a_job("fifth", array_id="array-1", task=5, status=JobStatus.SUCCEEDED))
            assert await work.jobs.list_succeeded_tasks("array-1") == {5: "fifth"}

    async def test_an_array_comes_back_with_its_table(self, store: Store) -> None:
        array = ArraySpec(3, (("LR", ("0.1", "x")),), "params.csv", 4, Decimal("0.9"), 2)
        job = a_job("array-1")
        async with store.transaction() as work:
            await work.jobs.save(replace(job, spec=replace(job.spec, array=array)))
            await work.jobs.keep_table("array-1", 'LR\n"a,\n\u00fc"\n')
        async with store.snapshot() as work:
            found = await work.jobs.find("array-1")
            assert found is not None
            assert found.spec.array == array
            assert await work.jobs.find_table("array-1") == 'LR\n"a,\n\u00fc"\n'
            assert await work.jobs.find_table("array-2") is None

    async def test_what_all_tasks_have_spent_and_what_is_held_for_them(self, store: Store) -> None:
        gone = a_lease("l2", "task-1", state=LeaseState.GONE, instance_id="2")
        settled = a_lease("l3", "task-1", state=LeaseState.GONE, instance_id="3", billing=Billing(settled_at=START))
        async with store.transaction() as work:
            await work.jobs.save(a_job("array-1"))
            await work.jobs.save(a_job("task-0", array_id="array-1", task=0, leases=(a_lease("l1", "task-0"),)))
            await work.jobs.save(
                a_job("task-1", array_id="array-1", task=1, status=JobStatus.FAILED, leases=(gone, settled))
            )
            await work.jobs.save(a_job("plain", leases=(a_lease("l4", "plain"),)))
            leases = (a_lease("l1", "task-0"), gone, settled, a_lease("l4", "plain"))
            for lease, amount in zip(leases, ("1", "0.25", "0.125", "64"), strict=True):
                await work.ledger.post([an_entry(f"e-{lease.id}", amount, lease=lease)])
                await work.ledger.post([an_entry(f"r-{lease.id}", "8", lease=lease, type=EntryType.RESERVE)])
            await work.ledger.post([an_entry("c", "-0.0625", lease=gone, type=EntryType.ADJUST)])
            sums = await work.ledger.sum_arrays(["array-1", "none"])
            assert sums == {
                "array-1": OwnerTotals(Decimal("1.3125"), Decimal(8)),
                "none": OwnerTotals(Decimal(0), Decimal(0)),
            }
            source = await work.reports.sum_spend(job_id="array-1")
            assert sum(cell.amount for cell in source.cells) == Decimal("1.3125")
            assert {facts.array_id for facts in source.leases.values()} == {"array-1"}
            of_task = await work.reports.sum_spend(job_id="task-1")
            assert sum(cell.amount for cell in of_task.cells) == Decimal("0.3125")

    async def test_tasks_of_one_machine_have_their_shares_of_it(self, store: Store) -> None:
        uses = TaskUse("task-0", START, START + HOUR), TaskUse("task-1", START + HOUR, START + HOUR * 3 / 2)
        running = Span(InstanceStatus.RUNNING, Decimal("0.5"), Decimal(0), START, START + HOUR * 3 / 2)
        shared = a_lease("l1", "task-1", instance_id="1", uses=uses, spans=(running,))
        other = a_lease("l2", "task-1", state=LeaseState.GONE, instance_id="2")
        async with store.transaction() as work:
            await work.jobs.save(a_job("array-1"))
            await work.jobs.save(a_job("task-0", array_id="array-1", task=0, status=JobStatus.SUCCEEDED))
            await work.jobs.save(a_job("task-1", array_id="array-1", task=1, leases=(shared, other)))
            await work.ledger.post([an_entry("e-2", "2", lease=other)])

        async def posted() -> list[Decimal]:
            async with store.snapshot() as work:
                sources = [await work.reports.sum_spend(job_id=f"task-{task}") for task in (0, 1)]
            return [sum((row.posted for row in report(source, "job", now=LATER)), Decimal(0)) for source in sources]

        assert await posted() == [0, 2], "nothing is posted of the one that they share"
        async with store.transaction() as work:
            await work.ledger.post([an_entry("e-1", "0.9", lease=shared)])
        assert await posted() == [Decimal("0.6"), Decimal("2.3")]
        async with store.transaction() as work:
            await work.ledger.post([an_entry("c-1", "-0.000000001", lease=shared, type=EntryType.ADJUST)])
        assert sum(await posted(), Decimal(0)) == Decimal("2.899999999"), "to the nano-dollar"
