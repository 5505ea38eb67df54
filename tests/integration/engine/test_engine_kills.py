"""The engine killed before and after its commits: a new one on the same ledger brings the story to its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.mailbox.keys import heartbeat_key, orders_key
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.ports.store import Store, StoreUnavailable
from tests.integration.engine.engine_world import World, a_world
from tests.integration.engine.interrupted_store import InterruptedStore, Killed, Moment
from tests.integration.engine.test_engine_migration import moving
from tests.variants import first_of


@dataclass(frozen=True)
class Ride:
    arrange: Callable[[World], Awaitable[None]]
    instances: int
    """How many machines the story needs; each more would be a double launch."""
    outbid: bool
    """Whether a rival comes once there is a checkpoint."""


class Wrapper:
    """Keeps hold of the interrupted store around the world's own; a restart gets a whole one."""

    def __init__(self) -> None:
        self.store: InterruptedStore | None = None

    def __call__(self, store: Store) -> Store:
        if self.store is not None:
            return store
        self.store = InterruptedStore(store)
        return self.store


async def a_bumpy_ride(world: World) -> None:
    """A lost answer, an outbid (by ``play``), a destroy that does nothing."""
    world.agents.total_steps = 150
    await world.fault("create", "effect_then_500")
    await world.fault("destroy", "no_effect_success")
    await world.submit()


async def a_move(world: World) -> None:
    await moving(world)


async def a_second_attempt(world: World) -> None:
    """The command fails, and ends well on the same machine."""
    world.agents.total_steps = 60
    world.agents.exit_code, world.agents.ends_well_from = 3, 2
    await world.submit()


BUMPY = Ride(a_bumpy_ride, instances=1, outbid=True)
MOVE = Ride(a_move, instances=2, outbid=False)
RETRY = Ride(a_second_attempt, instances=1, outbid=False)


async def play(world: World, ride: Ride) -> int:
    """Ticks to the end in any case; a new daemon follows each kill. Returns the number of kills."""
    kills, is_outbid = 0, not ride.outbid
    for _ in range(250):
        try:
            await world.tick()
        except Killed:
            kills += 1
            await world.restart()
        except StoreUnavailable:
            world.clock.advance(15)
        job = await world.job()
        if not is_outbid and job.status is JobStatus.RUNNING and job.checkpoint is not None and job.main is not None:
            world.rival(job.main, "1.05")
            is_outbid = True
        async with world.store.snapshot() as uow:
            if job.status.is_final and not job.leases:
                if not await uow.leases.list_unsettled():
                    break
                world.clock.advance(300)
    assert (await world.job()).status is JobStatus.SUCCEEDED, await world.story()
    assert is_outbid
    created = [row["label"] for row in world.sent("instance.created")]
    assert len(created) == len(set(created)) == ride.instances, await world.story()
    await world.check_books()
    return kills


@asynccontextmanager
async def underway(root: Path, ride: Ride) -> AsyncIterator[tuple[World, InterruptedStore]]:
    wrapper = Wrapper()
    async with a_world(root, wrapper, ledger_url=str(root / "ledger.db")) as world:
        await world.tick()
        await ride.arrange(world)
        assert wrapper.store is not None
        yield world, wrapper.store


async def transactions_of(root: Path, ride: Ride) -> int:
    async with underway(root, ride) as (world, store):
        before = store.transactions
        assert await play(world, ride) == 0
        return store.transactions - before


async def killed_at(root: Path, ride: Ride, number: int, moment: Moment) -> None:
    async with underway(root, ride) as (world, store):
        store.kill_at, store.moment = store.transactions + number, moment
        assert await play(world, ride) == 1


RENTING = range(1, 5)
"""The intent, the lost outcome, the adoption and the tick after it."""
MOVING = range(1, 7)
"""From the intent for the new home to the release of the old one. The gate below plays every commit of both rides."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", first_of(RENTING, 2))
async def test_a_kill_while_it_rents(tmp_path: Path, number: int, moment: Moment) -> None:
    await killed_at(tmp_path, BUMPY, number, moment)


@pytest.mark.slow
@pytest.mark.parametrize("number", first_of(MOVING, 2))
async def test_a_kill_while_it_moves(tmp_path: Path, number: int) -> None:
    await killed_at(tmp_path, MOVE, number, "before" if number % 2 else "after")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_kill_between_an_exit_and_the_next_attempt(tmp_path: Path, moment: Moment) -> None:
    """At the commit of the tick that sees the exit: with it, and the new run epoch, in the ledger or not."""
    async with underway(tmp_path, RETRY) as (world, store):
        await until_exit(world)
        await world.engine.tick()  # which takes the last checkpoint
        store.kill_at, store.moment = store.transactions + 1, moment
        with pytest.raises(Killed):
            await world.engine.tick()
        job = await world.job()
        assert job.main is not None
        orders = json.loads(await world.blobs.get(orders_key(job.id, job.main.id)) or b"")
        assert (job.failures, job.run_epoch) == ((0, 1) if moment == "before" else (1, 2))
        assert orders["run_epoch"] == 1, "the second run is unknown yet"
        await world.restart()
        assert await play(world, RETRY) == 0
        job, events = await world.job(), await world.events()
        assert (job.failures, job.run_epoch, job.launches) == (1, 2, 1)
        assert (events.count("run.exited"), events.count("run.ordered")) == (2, 1)


async def until_exit(world: World) -> None:
    """Until the command's first end is in the mailbox, still unread."""
    while True:
        world.sandbox.synchronise()
        await world.agents.act(world.clock.now())
        main = (await world.job()).main
        place = heartbeat_key(main.job_id or "", main.id) if main else ""
        said = parse_heartbeat(await world.blobs.get(place) or b"") if place else None
        if said is not None and said.exit is not None:
            return
        await world.tick()


@pytest.mark.slow
@pytest.mark.parametrize("number", first_of(RENTING, 2))
async def test_a_disk_that_fails_once(tmp_path: Path, number: int) -> None:
    async with underway(tmp_path, BUMPY) as (world, store):
        store.fail_at = store.transactions + number
        assert await play(world, BUMPY) == 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "ride", [pytest.param(BUMPY, id="ride"), pytest.param(MOVE, id="move"), pytest.param(RETRY, id="retry")]
)
async def test_a_kill_at_each_commit(tmp_path: Path, ride: Ride, moment: Moment) -> None:
    total = await transactions_of(tmp_path / "whole", ride)
    assert total > 20
    for number in range(1, total + 1):
        await killed_at(tmp_path / f"at-{number}", ride, number, moment)
