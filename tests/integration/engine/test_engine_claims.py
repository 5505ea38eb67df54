"""What an agent says is a claim: what does not hold, or belongs to another run, changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, counted_bytes
from autopilot.domain.reasons import Reason
from autopilot.engine.claims import SMALL_MESSAGES_BYTES
from autopilot.mailbox.keys import exit_key, heartbeat_key, manifest_key, part_key
from autopilot.mailbox.report_shapes import ExitRecord, Manifest
from tests.checkpoint_data import a_part, an_index
from tests.integration.engine.engine_world import JOB, D, World

DATA = an_index("a model")


async def put_checkpoint(world: World, lease: Lease, number: int, run_epoch: int, stored: bytes, step: int) -> None:
    assert lease.job_id is not None
    part = a_part(0, DATA)
    await world.blobs.put(part_key(lease.job_id, lease.id, number, 0), stored)
    manifest = Manifest(run_epoch, number, (part,), step)
    await world.blobs.put(manifest_key(lease.job_id, lease.id, number), manifest.to_json())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run_epoch", "stored"),
    [
        pytest.param(2, DATA, id="of-another-run"),
        pytest.param(1, b"not it!", id="torn"),
        pytest.param(1, b"", id="cut"),
    ],
)
async def test_a_checkpoint_that_does_not_hold_is_not_taken(world: World, run_epoch: int, stored: bytes) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    number = world.agents.of(lease.instance_id).next_checkpoint
    world.agents.of(lease.instance_id).next_checkpoint += 1
    await put_checkpoint(world, lease, number, run_epoch, stored, step=999_999)
    await world.tick(8)
    job = await world.job()
    assert job.checkpoint is not None
    assert job.checkpoint.step < 999_999
    assert job.checkpoint.number > number, "the good ones after it are not taken either"
    await world.until_over()


async def test_a_checkpoint_that_holds_is_taken(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    number = world.agents.of(lease.instance_id).next_checkpoint
    world.agents.of(lease.instance_id).next_checkpoint += 1
    await put_checkpoint(world, lease, number, 1, DATA, step=50)
    job = await world.until(lambda job: job.checkpoint is not None and job.checkpoint.number >= number, "it is taken")
    assert job.checkpoint is not None
    await world.until_over()


@pytest.mark.parametrize("is_here", [True, False], ids=["in the heartbeat", "beside it"])
async def test_the_end_of_another_run_does_not_end_the_job(world: World, is_here: bool) -> None:
    world.agents.can_exit_here = is_here
    lease = await world.running()
    assert lease.job_id is not None
    of_another = ExitRecord(run_epoch=7, exit_code=0)
    world.agents.of(lease.instance_id).exit = of_another if is_here else None
    await world.blobs.put(exit_key(lease.job_id, lease.id), of_another.to_json())
    await world.tick(4)
    assert (await world.job()).status is JobStatus.RUNNING
    await world.until_over()


async def test_an_agent_of_the_version_before_ends_its_job(world: World) -> None:
    world.agents.can_exit_here = False
    lease = await world.running()
    job = await world.until_over()
    assert (job.status, job.exit_code) == (JobStatus.SUCCEEDED, 0)
    assert await world.blobs.get(exit_key(lease.job_id or "", lease.id)) is not None


async def test_of_others_the_object_beside_the_heartbeat_is_no_proof(world: World) -> None:
    lease = await world.running()
    await world.blobs.put(exit_key(lease.job_id or "", lease.id), ExitRecord(lease.orders.run_epoch, 0).to_json())
    await world.tick(4)
    assert (await world.job()).status is JobStatus.RUNNING
    await world.until_over()


async def test_nonsense_in_the_mailbox_stops_nothing(world: World) -> None:
    lease = await world.running()
    assert lease.job_id is not None
    world.agents.deaf.add(lease.id)
    for nonsense in (b"", b"[]", b'{"v": 1}', b"\xff" * 50, b'{"v": 1, "boot": 1e400}', b"9" * 2_000_000):
        await world.blobs.put(heartbeat_key(lease.job_id, lease.id), nonsense)
        await world.blobs.put(exit_key(lease.job_id, lease.id), nonsense)
        await world.tick()
    assert (await world.job()).status is JobStatus.RUNNING
    world.agents.deaf.clear()
    await world.until_over()


# --- traffic: what is claimed, what the store took, and what the bill says

LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "3h"')
OTHER_JOB = LONG_JOB.replace('name = "train"', 'name = "other"')


async def find(world: World, name: str) -> Job:
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(name)
    assert job is not None
    return job


async def moves(world: World, name: str) -> list[tuple[str, str]]:
    """How the job of that name was parked and went on: the event's name and its reason."""
    job = await find(world, name)
    async with world.store.snapshot() as uow:
        records = [record for record in await uow.events.list_after() if record.job_id == job.id]
    told = [(record.name, dict(record.fields)) for record in records]
    moved = [(name, f) for name, f in told if name == "job.parked" or f.get("from") == "parked"]
    return [(name, str(f["reason"])) for name, f in moved]


async def until_it_goes_on(world: World, name: str) -> None:
    """The second look at the bill is within two hours."""
    for _ in range(40):
        await world.tick(apart_s=200)
        if (await find(world, name)).status.wants_capacity:
            return
    raise AssertionError(f"{name} stays parked: {await moves(world, name)}")


async def claim(world: World, lease: Lease, stored_gb: int) -> None:
    """The agent says that it has sent a petabyte, of which so much lies in the store: a file full of nothing."""
    world.agents.of(lease.instance_id).claims_sent = 10**15
    world.blobs.empty_bytes[part_key(str(lease.job_id), lease.id, 900, 0)] = stored_gb * 10**9


async def both_running(world: World, first: str, second: str) -> tuple[Lease, Lease]:
    world.agents.total_steps = 100_000
    await world.running(first, accept_any=True)
    await world.submit(second, accept_any=True)
    await world.until_running()
    claiming, other = (await find(world, "train")).main, (await find(world, "other")).main
    assert claiming is not None
    assert other is not None
    return claiming, other


async def test_a_claim_counts_up_to_what_the_store_took(world: World) -> None:
    claiming, _ = await both_running(world, LONG_JOB, OTHER_JOB)
    await claim(world, claiming, stored_gb=3)
    await world.tick(3)
    counted = counted_bytes(await world.lease(claiming.id))
    assert 3 * 10**9 < counted < 3 * 10**9 + SMALL_MESSAGES_BYTES + 10**6
    assert (await find(world, "train")).status is JobStatus.RUNNING
    assert (await find(world, "other")).status is JobStatus.RUNNING


@pytest.mark.slow
async def test_a_claim_counts_up_to_its_job_s_budget_and_the_job_resumes_once_a_bill_refutes_it(
    world: World,
) -> None:
    """It did lie in the store, and would be thousands of dollars. The bill knows nothing of it."""
    claiming, _ = await both_running(world, LONG_JOB, OTHER_JOB)
    await claim(world, claiming, stored_gb=8000)
    await world.tick(4)
    parked = await find(world, "train")
    assert (parked.status, parked.reason) == (JobStatus.PARKED, Reason.BUDGET_EXHAUSTED)
    async with world.store.snapshot() as uow:
        posted = (await uow.ledger.sum_totals(world.clock.now().date())).day
    assert D("8.5") < posted < D("9.1")
    assert (await find(world, "other")).status is JobStatus.RUNNING
    await until_it_goes_on(world, "train")
    assert await moves(world, "train") == [("job.parked", "budget_exhausted"), ("job.recovering", "room_again")]
    assert await moves(world, "other") == []
    assert (await find(world, "train")).spent < 1


@pytest.mark.slow
async def test_jobs_that_a_claim_parked_go_on_once_the_bill_takes_it_back(world: World) -> None:
    """Without a budget of its own the claim counts as far as the store took it: more than the day's limit here."""
    claiming, _ = await both_running(world, LONG_JOB.replace('[budget]\ntotal = "$9"\n', ""), OTHER_JOB)
    await claim(world, claiming, stored_gb=15_000)
    await world.tick(4)
    for name in ("train", "other"):
        job = await find(world, name)
        assert (job.status, job.reason) == (JobStatus.PARKED, Reason.OVER_DAY_LIMIT), name
    await until_it_goes_on(world, "other")
    await world.tick(2)
    for name in ("train", "other"):
        assert await moves(world, name) == [("job.parked", "over_day_limit"), ("job.recovering", "room_again")]


async def test_a_bill_counts_everywhere_at_once(world: World) -> None:
    """No agent said a word of it: the market's first line is enough, long before the bill is complete."""
    silent, _ = await both_running(world, LONG_JOB, OTHER_JOB)
    world.market.transfer(world.instance(silent).id, down_gb=D(0), up_gb=D(30_000))
    await world.jobs.cancel("train")
    for _ in range(8):
        await world.tick()
    other = await find(world, "other")
    assert (other.status, other.reason) == (JobStatus.PARKED, Reason.OVER_DAY_LIMIT)
    async with world.store.snapshot() as uow:
        (unsettled, *_) = await uow.leases.list_unsettled()
    assert unsettled.id == silent.id


@pytest.mark.slow
async def test_a_raised_limit_lets_parked_jobs_go_on_and_nothing_else_does(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.stop()
    world.limits = replace(world.limits, day=D("0.30"))
    await world.start()
    await world.running(LONG_JOB, accept_any=True)
    await world.until(lambda job: job.status is JobStatus.PARKED, "parked", most=150, apart_s=60)
    assert (await world.job()).reason is Reason.OVER_DAY_LIMIT
    for _ in range(40):  # the machine is gone and what it did not need is free: no reason to begin again
        await world.tick(apart_s=150)
    await world.restart()
    await world.tick(4)
    assert await moves(world, "train") == [("job.parked", "over_day_limit")]
    world.limits = replace(world.limits, day=D("0.60"))
    await world.restart()
    await world.until_running()
    assert await moves(world, "train") == [("job.parked", "over_day_limit"), ("job.recovering", "room_again")]
    await world.until(lambda job: job.status is JobStatus.PARKED, "parked again", most=225, apart_s=60)
    for _ in range(40):
        await world.tick(apart_s=150)
    await world.restart()
    await world.tick(4)
    assert len(await moves(world, "train")) == 3, "one raise, one start"
