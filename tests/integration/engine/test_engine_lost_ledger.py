"""The ledger goes away or cannot be written: nothing is rented, machines are let go, nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from autopilot.domain.job import JobSpec
from autopilot.domain.lease import Lease, LeaseState
from autopilot.ports.store import CommitUnknown, StoreUnavailable
from autopilot.service.leadership import FencedProvider
from tests.integration.engine.engine_world import World, a_world
from tests.pg import PostgresServer
from tests.pg_wire import Cut, wire


async def fruitless_ticks(world: World, times: int) -> None:
    for _ in range(times):
        with pytest.raises(StoreUnavailable):
            await world.tick()
        world.clock.advance(15)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_no_create_is_sent_if_the_commit_of_the_intent_is_unknown(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path, cut: Cut
) -> None:
    async with wire(postgres_server.socket_dir) as way, a_world(tmp_path, ledger_url=way.url(postgres_url)) as world:
        await world.tick()
        await world.submit()
        way.cut_at_next_commit = cut
        with pytest.raises(CommitUnknown):
            await world.tick()
        assert way.cuts == 1
        assert world.creates() == 0
        assert len(await world.leases()) == (1 if cut == "after" else 0)
        await world.until_over()
        assert world.creates() == 1
        abandoned = [lease for lease in await world.leases() if lease.state is LeaseState.ABANDONED]
        assert len(abandoned) == (1 if cut == "after" else 0)
        assert len({lease.label for lease in await world.leases()}) == len(await world.leases())


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_create_whose_outcome_may_not_be_recorded_is_made_only_once(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Cut
) -> None:
    async with wire(postgres_server.socket_dir) as way, a_world(tmp_path, ledger_url=way.url(postgres_url)) as world:
        await world.tick()
        await world.submit()
        create = world.engine.calls.create
        # Past prices are written beside the tick: the next commit is to be that of the create's outcome.
        monkeypatch.setattr(world.engine._past_prices, "fill", lambda *_: None)

        def cut_the_next_commit_and_create(spec: JobSpec, lease: Lease) -> None:
            way.cut_at_next_commit = cut
            create(spec, lease)

        with monkeypatch.context() as patch:
            patch.setattr(world.engine.calls, "create", cut_the_next_commit_and_create)
            await world.tick()
        assert (way.cuts, world.creates()) == (1, 1)
        await world.until_over()
        assert world.creates() == 1


@pytest.mark.slow
async def test_machines_are_let_go_and_none_is_rented_while_the_server_is_down(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    async with a_world(tmp_path, ledger_url=private_postgres.url()) as world:
        await world.tick()
        world.agents.total_steps = 60
        lease = await world.running()
        await world.fault("destroy", "http_500", times=2)
        await world.until(lambda job: job.status.is_final, "the job is over")
        await world.submit(OTHER_JOB)
        private_postgres.kill()
        await fruitless_ticks(world, 6)
        assert world.instance(lease).destroyed_at is not None
        assert world.creates() == 1
        private_postgres.start()
        await world.until(lambda job: job.status.is_final, "the other job is over")
        await world.tick(8)
        assert (await world.lease(lease.id)).state is LeaseState.GONE
        assert (world.creates(), world.ours()) == (2, [])


@pytest.mark.slow
async def test_a_market_behind_a_lost_ledger_takes_destroys_and_no_creates(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    async with a_world(tmp_path, ledger_url=private_postgres.url()) as world:
        await world.tick()
        lease = await world.running()
        fenced = FencedProvider(world.provider, world.store, hold_creates_real_s=0)
        private_postgres.stop()
        with pytest.raises(StoreUnavailable):
            await fenced.change_bid(str(lease.instance_id), lease.bid)
        await fenced.destroy(str(lease.instance_id))
        assert world.instance(lease).destroyed_at is not None
        private_postgres.start()


@contextmanager
def read_only_ledger() -> Iterator[None]:
    """As a file system that was remounted read-only after a disk error."""

    def apply(connection: Any, *_: object) -> None:
        connection.cursor().execute("PRAGMA query_only = ON")

    def lift(connection: Any, *_: object) -> None:
        connection.cursor().execute("PRAGMA query_only = OFF")

    event.listen(Pool, "checkout", apply)
    event.listen(Pool, "checkin", lift)
    try:
        yield
    finally:
        event.remove(Pool, "checkout", apply)
        event.remove(Pool, "checkin", lift)


@pytest.mark.slow
async def test_nothing_is_rented_and_machines_are_let_go_while_a_file_is_read_only(tmp_path: Path) -> None:
    async with a_world(tmp_path, ledger_url=str(tmp_path / "ledger.db")) as world:
        await world.tick()
        world.agents.total_steps = 60
        lease = await world.running()
        await world.fault("destroy", "http_500", times=2)
        await world.until(lambda job: job.status.is_final, "the job is over")
        await world.submit(OTHER_JOB)
        with read_only_ledger():
            with pytest.raises(StoreUnavailable, match="read-only"):
                await world.submit()
            await fruitless_ticks(world, 6)
            assert world.instance(lease).destroyed_at is not None
            assert world.creates() == 1
        await world.until(lambda job: job.status.is_final, "the other job is over")
        assert world.creates() == 2


OTHER_JOB = """
name = "other"
image = "some/image:1"
run = "true"
[resources]
gpu = "RTX 3090:1"
"""
