"""The ledger cannot be written: nothing is rented, machines are still let go, and nothing is lost afterwards."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from autopilot.api.submissions import Sent
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.reasons import Reason
from autopilot.ports.store import StoreUnavailable
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.interrupted_store import InterruptedStore


@pytest.fixture
def world(world_on_disk: World) -> World:
    return world_on_disk


@contextmanager
def every_connection_set_to(pragma: str) -> Iterator[None]:
    def apply(connection: Any, *_: object) -> None:
        connection.cursor().execute(f"PRAGMA {pragma}")

    event.listen(Pool, "checkout", apply)
    try:
        yield
    finally:
        event.remove(Pool, "checkout", apply)


@contextmanager
def locked_ledger(world: World) -> Iterator[None]:
    """Another program holds the write lock; reads go on."""
    other = sqlite3.connect(world.root / "ledger.db", isolation_level=None)
    try:
        with every_connection_set_to("busy_timeout = 20"):
            other.execute("BEGIN IMMEDIATE")
            yield
    finally:
        other.close()


async def fruitless_ticks(world: World, times: int) -> None:
    for _ in range(times):
        with pytest.raises(StoreUnavailable):
            await world.tick()
        world.clock.advance(15)


@pytest.mark.slow
async def test_nothing_is_rented_while_the_ledger_is_locked(world: World) -> None:
    await world.submit()
    with locked_ledger(world):
        await fruitless_ticks(world, 4)
    assert world.creates() == 0
    await world.until_over()
    assert world.creates() == 1


@pytest.mark.slow
async def test_no_job_is_said_to_be_in_time_while_no_tick_ends_well(world: World) -> None:
    async def verdict() -> object:
        return (await world.jobs.show("train"))["job"]["verdict"]

    await world.running(f'{JOB}[deadline]\nwithin = "6h"\n')
    assert await verdict() == "fine"
    with locked_ledger(world):
        begun = world.clock.now()
        await fruitless_ticks(world, 2)
        assert await verdict() is None
        failing = world.engine.failing_since
        assert failing is not None
        assert failing - begun < timedelta(seconds=15)
        assert "locked" in world.engine.failure
    await world.tick()
    assert await verdict() == "fine"
    assert not world.engine.failure


@pytest.mark.slow
async def test_machines_are_let_go_while_the_ledger_is_locked(world: World) -> None:
    world.agents.total_steps = 60
    lease = await world.running()
    await world.fault("destroy", "http_500", times=2)
    await world.until(lambda job: job.status.is_final, "the job is over")
    with locked_ledger(world):
        await fruitless_ticks(world, 6)
        assert world.instance(lease).destroyed_at is not None
    assert (await world.lease(lease.id)).state is LeaseState.DESTROY_REQUESTED
    await world.until_over()


@pytest.mark.slow
async def test_a_running_job_outlives_a_locked_ledger(world: World) -> None:
    lease = await world.running()
    with locked_ledger(world):
        await fruitless_ticks(world, 8)
        assert world.instance(lease).destroyed_at is None
    assert (await world.lease(lease.id)).state is LeaseState.ACTIVE
    await world.until_over()
    assert world.creates() == 1


async def test_a_full_disk_rents_nothing_and_loses_nothing(world: World) -> None:
    with every_connection_set_to("max_page_count = 1"):  # SQLite lifts this to the pages that there are
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await submit_and_tick_until_it_fails(world)
        rented, kept = world.creates(), await names(world)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await world.submit(JOB_WITH_LONG_ENV.format(name="one-more", filler="x" * 30_000))
    assert await names(world) == kept
    assert world.creates() == rented
    with every_connection_set_to("max_page_count = 1000000"):
        await world.submit()
        await world.tick()
    assert await names(world) == kept | {"train"}


async def submit_and_tick_until_it_fails(world: World) -> None:
    for number in range(40):
        await world.submit(JOB_WITH_LONG_ENV.format(name=f"job-{number}", filler="x" * 3000))
        await world.tick()


async def names(world: World) -> set[str]:
    async with world.store.snapshot() as uow:
        return {job.spec.name for job in await uow.jobs.list_newest(limit=100)}


@pytest.mark.slow
async def test_a_cancel_that_cannot_be_recorded_holds_at_once_and_is_recorded_later(world: World) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running()
    with locked_ledger(world):
        answer, unrecorded = await world.jobs.cancel("train")
        assert answer["status"] == "running"
        assert "another process keeps it locked" in unrecorded
        await fruitless_ticks(world, 2)
        assert world.instance(lease).destroyed_at is not None
    assert (await world.job()).status is JobStatus.RUNNING
    job = await world.until_over(JobStatus.CANCELLED)
    assert job.reason is Reason.USER_CANCELLED
    assert world.creates() == 1
    _, unrecorded = await world.jobs.cancel((await world.submit()).id)
    assert not unrecorded


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "small"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast


async def submit_until_it_fails(world: World) -> None:
    for number in range(200):
        text = JOB_WITH_LONG_ENV.format(name=f"job-{number}", filler="x" * 30_000)
        await world.jobs.submissions.submit(
            [Sent(text, "job.toml")], itemgetter(0), dry_run=False, least_probability=0.0, owner=1000
        )


@pytest.mark.slow
async def test_cancel_works_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """Where a little still fits it is recorded, else remembered: the machine goes in either case."""
    async with a_world(tmp_path, ledger_url=str(small_disk / "ledger.db")) as world:
        world.agents.total_steps = 100_000
        lease = await world.running()
        ballast = fill(small_disk)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await submit_until_it_fails(world)
        await world.jobs.cancel("train")
        for _ in range(3):
            with contextlib.suppress(StoreUnavailable):
                await world.tick()
            world.clock.advance(15)
        assert world.instance(lease).destroyed_at is not None
        ballast.unlink()
        await world.until(lambda job: job.status is JobStatus.CANCELLED, "the cancel is recorded", most=20)


@pytest.fixture
async def failing(tmp_path: Path) -> AsyncIterator[tuple[World, InterruptedStore]]:
    made: list[InterruptedStore] = []

    def wrap(store: Any) -> InterruptedStore:
        made.append(InterruptedStore(store))
        return made[-1]

    async with a_world(tmp_path, wrap) as world:
        await world.tick()
        yield world, made[0]


async def test_the_outcome_of_a_create_that_cannot_be_recorded_is_found_again(
    failing: tuple[World, InterruptedStore],
) -> None:
    world, store = failing
    await world.submit()
    store.fail_at = store.transactions + 2  # the intent is committed, its outcome is not
    await world.tick()
    (lease,) = await world.leases()
    assert (lease.state, lease.instance_id) == (LeaseState.INTENT, None)
    assert world.creates() == 1
    await world.until_running()
    assert "lease.adopted" in await world.events()
    await world.until_over()
    assert world.creates() == 1


async def test_the_outcome_of_a_re_bid_that_cannot_be_recorded_is_seen_at_the_market(
    failing: tuple[World, InterruptedStore],
) -> None:
    world, store = failing
    await world.running()
    lease = await world.until_checkpoint()
    world.rival(lease, "1.05")
    store.fail_at = store.transactions + 2
    await world.until_at(JobStatus.PAUSED)
    resumed = await world.until_running()
    assert resumed.bid == world.instance(lease).price > lease.bid
    await world.until_over()


JOB_WITH_LONG_ENV = """
name = "{name}"
image = "some/image:1"
run = "true"
[resources]
gpu = "RTX 3090:1"
[env]
FILLER = "{filler}"
"""
