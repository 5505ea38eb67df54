"""Rivals whose bids no list shows: what a bid that lost teaches, and that no create repeats it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot_lab.sandbox.market.machines import HostState, Machine
from tests.integration.engine.engine_world import JOB, D, World

SPOT_ONLY = JOB + '[spot]\npolicy = "spot"\n'


def only_host(world: World, floor: str, gpus: int = 1) -> Machine:
    """The one machine with GPUs of that kind on which a bid can win; the others cost more than any bid may."""
    fitting = [m for m in world.market.machines.values() if m.spec.gpu_name == "RTX 4090"]
    chosen = next(m for m in fitting if m.spec.gpu_count == gpus)
    for machine in fitting:
        own = machine is chosen
        world.market.set_floor(machine.spec.machine_id, D(floor) if own else machine.spec.on_demand)
    return chosen


def a_rival(world: World, machine: Machine, bid: str) -> None:
    world.market.add_rival(machine.spec.machine_id, machine.spec.gpu_ids, D(bid))


async def bids(world: World) -> list[Decimal]:
    """Of every create for the job, in order."""
    return [lease.bid for lease in await world.leases()]


async def test_a_bid_that_lost_is_raised_until_it_wins(world: World) -> None:
    machine = only_host(world, "0.120")
    a_rival(world, machine, "0.160")
    await world.submit(SPOT_ONLY)
    lease = await world.until_running()
    tried = await bids(world)
    assert tried[0] == D("0.126")
    assert tried == sorted(set(tried)), "each create bids more than the one that lost"
    assert tried[-2] <= D("0.160") < tried[-1] == lease.bid
    assert len(tried) <= 6, "a twentieth at a time, one a tick"


@pytest.mark.slow
async def test_above_the_ceiling_the_machine_is_left_alone_for_longer_and_longer(world: World) -> None:
    machine = only_host(world, "0.120")
    a_rival(world, machine, "0.900")
    await world.submit(SPOT_ONLY)
    await world.tick(8 * 60, apart_s=60)
    tried = await bids(world)
    assert len(tried) <= 24, f"{len(tried)} creates in eight hours: {tried}"
    assert max(tried) > D("0.300"), "the ladder goes up to the ceiling before the machine is left alone"
    assert world.ours() == []


@pytest.mark.slow
@pytest.mark.parametrize("hours", [0, 7])
async def test_a_restart_forgets_no_bid_that_lost_on_a_machine(world: World, hours: int) -> None:
    """Nor one that has held its machine for longer than a loss is remembered."""
    world.agents.total_steps = 36_000
    machine = only_host(world, "0.120")
    await world.running(SPOT_ONLY)
    await world.tick(hours * 6, apart_s=600)
    a_rival(world, machine, "0.900")
    await world.until(lambda job: job.main is None, "the outbid machine is left")
    highest = max(await bids(world))
    lost = [lease for lease in await world.leases() if lease.is_over or lease.instance_id]
    await world.restart()
    await world.tick(4)
    assert lost
    assert min([*(await bids(world))[len(lost) :], D(9)]) > highest


async def test_a_restart_forgets_no_create_that_was_refused(world: World) -> None:
    machine = only_host(world, "0.120")
    a_rival(world, machine, "0.900")
    await world.submit(SPOT_ONLY)
    await world.tick(3)
    refused = await bids(world)
    await world.restart()
    await world.tick(3)
    later = (await bids(world))[len(refused) :]
    assert refused
    assert later
    assert min(later) > max(refused)


async def test_one_jobs_loss_teaches_the_others(world: World) -> None:
    machine = only_host(world, "0.120")
    a_rival(world, machine, "0.200")
    await world.submit(SPOT_ONLY)
    await world.until_running()
    lost = set((await bids(world))[:-1])  # the last one won
    await world.submit(SPOT_ONLY.replace('name = "train"', 'name = "second"'))
    await world.tick(20)
    assert not lost & set(await bids(world))


async def test_why_shows_the_lost_bid(world: World) -> None:
    machine = only_host(world, "0.120")
    a_rival(world, machine, "0.900")
    await world.submit(SPOT_ONLY)
    await world.tick(6)
    async with world.store.snapshot() as uow:
        decisions = await uow.decisions.list_by_job(world.job_id, limit=50)
    notes = [dict(note.numbers) for decision in decisions for note in decision.notes if note.topic == "lost_bid"]
    assert notes
    assert {note["machine_id"] for note in notes} == {str(machine.spec.machine_id)}
    assert min(D(str(note["bid"])) for note in notes) == D("0.126")


@pytest.mark.slow
async def test_a_host_that_is_full_and_stays_listed_is_asked_less_and_less_often(world: World) -> None:
    machine = only_host(world, "0.120")
    await world.emu("POST", "full", machine_id=machine.spec.machine_id)
    await world.submit(SPOT_ONLY)
    await world.tick(60, apart_s=60)
    assert 4 <= world.creates() <= 8, f"{world.creates()} creates in an hour"
    await world.emu("POST", "full", machine_id=machine.spec.machine_id, full=False)
    await world.until_running()


async def test_what_runs_on_the_next_gpu_of_a_host_says_nothing_of_a_bid_that_lost_there(world: World) -> None:
    world.agents.total_steps = 3600
    machine = only_host(world, "0.120", gpus=2)
    await world.running(SPOT_ONLY)
    (ours,) = world.ours()
    (other,) = set(machine.spec.gpu_ids) - set(ours.gpu_ids)
    world.market.add_rival(machine.spec.machine_id, (other,), D("0.160"))
    await world.submit(SPOT_ONLY.replace('name = "train"', 'name = "second"'))
    await world.until_running()
    tried = await bids(world)
    assert tried[0] == ours.price == D("0.126")
    assert tried == sorted(set(tried)), "each create bids more than the one that lost"


@pytest.mark.slow
async def test_where_a_bid_was_outbid_a_deadline_takes_the_machine_on_demand(world: World) -> None:
    world.agents.total_steps = 900
    job = JOB.replace("RTX 4090:1", "A100 SXM4:1").replace('"10m"', '"15m"') + '[deadline]\nwithin = "50m"\n'
    for machine in world.market.machines.values():
        if (machine.spec.gpu_name, machine.spec.gpu_count) == ("A100 SXM4", 1):
            world.market.set_host(machine.spec.machine_id, HostState.OFFLINE)
    lease = await world.running(job)
    for gpu in world.market.machines[int(lease.machine_id)].spec.gpu_ids:
        world.market.add_rival(int(lease.machine_id), (gpu,), D("1.200"))
    await world.until(lambda job: job.status.is_final, "the end", most=250)
    first, second = await world.leases()
    assert (first.reason, second.capacity_type) == (Reason.OUTBID, CapacityType.ON_DEMAND)
    assert second.machine_id == first.machine_id
    ended = await world.job()
    assert ended.finished_at is not None
    assert ended.spec.deadline is not None
    assert ended.finished_at <= ended.spec.deadline
