"""The receipt of a job: it adds up, says how far bills confirm it, and counts what the market did to its machines."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from autopilot.answers.codec import from_json, to_json
from autopilot.answers.money import ItemizedReceipt
from autopilot.domain.job import JobStatus
from autopilot.service.job_receipts import JobReceipts
from autopilot.words import receipts
from tests.integration.engine.engine_world import World


async def read(world: World) -> ItemizedReceipt:
    receipt = await world.jobs.receipt(world.job_id)
    assert from_json(ItemizedReceipt, to_json(receipt)) == receipt
    assert sum(line.amount for line in receipt.lines) == receipt.posted
    assert sum(each.posted for each in receipt.machines) == receipt.posted
    assert receipt.total == receipt.posted
    return receipt


async def test_an_outbid_is_on_the_receipt_and_the_bill_confirms_it(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    assert (await world.jobs.show(world.job_id))["receipt"] is None, "the job is not over"
    begun = await read(world)
    assert begun.bill == "awaited"
    assert "the market's bill is still to come" in receipts.tell(begun)
    await world.tick(2)
    world.rival(lease, "1.05")
    await world.until_at(JobStatus.PAUSED)
    await world.until_over()
    await world.until_settled()
    body = await read(world)
    assert (body.bill, len(body.machines), body.interruptions) == ("complete", 1, 1)
    assert body.machines[0].invoiced == body.posted
    told = receipts.tell(body)
    assert "(confirmed by the market's bill)" in told
    assert "interrupted once" in told
    assert (await world.jobs.show(world.job_id))["receipt"].items() <= to_json(body).items()
    assert await JobReceipts(world.store, world.clock).tell(world.job_id) == told
    assert await JobReceipts(world.store, world.clock).tell("none") == ""


async def test_a_job_that_moved_has_two_machines_and_one_that_the_daemon_ends_is_no_interruption(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.add_on_demand(int(lease.machine_id), world.instance(lease).gpu_ids)
    await world.until(lambda job: job.launches == 2, "another machine")
    await world.until_over()
    await world.until_settled()
    body = await read(world)
    assert (len(body.machines), body.interruptions, body.bill) == (2, 1, "complete")
    assert Decimal(body.work_lost_s or 0) == sum(
        Decimal(str(dict(event.fields)["seconds"])) for event in await _losses(world)
    )


async def _losses(world: World) -> list[Any]:
    async with world.store.snapshot() as uow:
        return [event for event in await uow.events.list_by_job(world.job_id) if event.name == "work.lost"]
