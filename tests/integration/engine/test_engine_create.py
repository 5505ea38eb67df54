"""Creates with every kind of ending: none is sent twice, none is forgotten, none is paid for unseen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.engine.reconcile import SETTLE
from tests.integration.engine.engine_world import JOB, D, World


@pytest.mark.parametrize("kind", ["effect_then_500", "effect_then_reset", "html", "empty", "bad_json"])
async def test_a_create_whose_answer_is_lost_is_adopted(world: World, kind: str) -> None:
    await world.fault("create", kind)
    await world.submit()
    await world.until_running()
    events = await world.events()
    assert "lease.create_unknown" in events
    assert "lease.adopted" in events
    await world.until_over()
    assert len(world.sent("instance.created")) == 1
    assert len(await world.leases()) == 1


async def test_a_create_that_hangs_is_adopted(world: World) -> None:
    await world.tick()
    await world.fault("create", "effect_then_timeout")
    await world.submit()
    await world.until_over()
    assert "lease.adopted" in await world.events()
    assert len(world.sent("instance.created")) == 1


async def test_a_losing_bid_that_leaves_a_contract_is_destroyed_and_paid(world: World) -> None:
    await world.fault("create", "success_false")
    await world.submit()
    await world.until_over()
    first, second = await world.leases()
    assert (first.state, first.reason) == (LeaseState.GONE, Reason.OUTBID)
    assert first.instance_id is not None
    assert second.reason is Reason.COMPLETED
    assert first.machine_id != second.machine_id


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http_502", "reset"])
async def test_a_create_lost_without_effect_is_given_up_after_the_settle_window_and_no_sooner(
    world: World, kind: str
) -> None:
    await world.fault("create", kind)
    await world.submit()
    sent_at = world.clock.now()
    await world.tick()
    (lease,) = await world.leases()
    while (await world.lease(lease.id)).state is LeaseState.INTENT:
        assert world.creates() == 0, "another create while the first is open"
        await world.tick()
    assert world.clock.now() - sent_at >= SETTLE
    abandoned = await world.lease(lease.id)
    assert (abandoned.state, abandoned.reason) == (LeaseState.ABANDONED, Reason.NEVER_APPEARED)
    await world.until_over()
    assert len(await world.leases()) == 2
    assert world.creates() == 1


async def test_refusals_that_cost_nothing_use_up_no_launch(world: World) -> None:
    refusals = 3
    await world.fault("create", "http_429", times=refusals)
    await world.submit()
    await world.until_running()
    leases = await world.leases()
    assert await world.requests("create") == refusals + 1, "what the market is not to be asked now is not sent"
    assert leases[-1].intended_at - leases[0].intended_at < timedelta(minutes=5)
    assert {lease.state for lease in leases[:-1]} == {LeaseState.ABANDONED}


async def test_a_refused_create_is_tried_elsewhere(world: World) -> None:
    await world.submit()
    chosen = world.plan["offers"][0]
    # The floor moves after the search: the bid that would have won then does not win now.
    world.market.set_floor(int(chosen["machine_id"]), D(chosen["floor"]) * 2)
    await world.until_over()
    refused, taken = await world.leases()
    assert refused.state is LeaseState.ABANDONED
    assert refused.machine_id == chosen["machine_id"]
    assert taken.machine_id != chosen["machine_id"]


async def test_a_create_that_lands_after_it_was_given_up_is_destroyed_and_paid(world: World) -> None:
    await world.fault("create", "http_502")
    await world.submit()
    (lease,) = await _leases_after_a_tick(world)
    await world.until(lambda job: job.launches == 2, "the first create is given up and another made")
    late = await world.rent_by_hand(lease.label)
    await world.until_over()
    tombstone = await world.lease(lease.id)
    assert tombstone.instance_id == str(late.id)
    assert tombstone.state is LeaseState.GONE
    assert late.destroyed_at is not None
    assert (late.destroyed_at - late.created_at).total_seconds() < 180


async def test_a_create_that_lands_after_the_job_is_over_is_destroyed_and_paid(world: World) -> None:
    await world.fault("create", "http_502")
    await world.submit()
    (lease,) = await _leases_after_a_tick(world)
    await world.until_over()
    late = await world.rent_by_hand(lease.label)
    await world.tick(8)
    assert late.destroyed_at is not None
    await world.tick(20)
    await world.until_settled()
    assert (await world.lease(lease.id)).instance_id == str(late.id)


async def test_one_create_that_makes_two_machines_keeps_one(world: World) -> None:
    await world.fault("create", "effect_then_500")
    await world.submit()
    (lease,) = await _leases_after_a_tick(world)
    duplicate = await world.rent_by_hand(lease.label)
    await world.until_over()
    (kept,) = await world.leases()
    assert kept.instance_id != str(duplicate.id)
    assert duplicate.destroyed_at is not None
    assert (duplicate.destroyed_at - duplicate.created_at).total_seconds() < 90


async def test_a_machine_on_other_terms_than_asked_for_is_let_go(world: World) -> None:
    await world.fault("create", "http_502")
    await world.submit()
    (lease,) = await _leases_after_a_tick(world)
    assert lease.is_spot
    dear = await world.rent_by_hand(lease.label, capacity_type=CapacityType.ON_DEMAND, bid=D(1))
    await world.tick(2)
    adopted = await world.lease(lease.id)
    assert adopted.instance_id == str(dear.id)
    assert adopted.reason is Reason.WRONG_TERMS
    await world.until_over()
    assert dear.destroyed_at is not None
    assert (await world.leases())[-1].reason is Reason.COMPLETED


async def test_nothing_on_offer_waits(world: World) -> None:
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, machine.spec.on_demand * 2)
        world.market.add_on_demand(machine.spec.machine_id, machine.spec.gpu_ids)
    await world.submit()
    await world.tick(4)
    assert (await world.job()).status is JobStatus.PENDING
    assert world.creates() == 0


async def _leases_after_a_tick(world: World) -> tuple[Lease, ...]:
    await world.tick()
    return await world.leases()


async def test_jobs_of_one_tick_do_not_ask_for_the_same_machine(world: World) -> None:
    for _ in range(3):
        await world.submit()
    await world.tick()
    await world.tick()
    asked = [event["offer_id"] for event in world.sent("create.requested")]
    assert len(asked) == 3
    assert len(set(asked)) == 3, "two jobs raced for one offer"


async def test_what_one_tick_rents_counts_for_the_next_job_of_that_tick(world: World) -> None:
    config = world.engine.config
    world.engine.config = replace(config, limits=replace(config.limits, launches_per_hour=1))
    await world.tick()
    await world.submit()
    await world.submit(JOB.replace('name = "train"', 'name = "other"'))
    await world.tick(3)
    assert world.creates() == 1
