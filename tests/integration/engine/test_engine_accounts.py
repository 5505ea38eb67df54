"""A key that is replaced by one of another account while machines of the account before are not over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.engine.accounts import NOTE, forget_account
from autopilot.engine.reconcile import SETTLE
from autopilot.ports.provider import Provider
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.in_process import connect_in_process

TICKS = int(SETTLE.total_seconds() / 15) + 20


class TwoAccounts(World):
    """``elsewhere``: the market as another account sees it."""

    elsewhere: Sandbox
    has_other_key = False

    def connect(self) -> Provider:
        return connect_in_process(self.elsewhere, self.api_key, self.clock) if self.has_other_key else super().connect()

    async def change_key(self, *, is_other: bool) -> None:
        self.has_other_key = is_other
        await self.restart()

    async def take_account(self) -> None:
        """As ``autopilot db take-account`` does."""
        await self.stop()
        store = await self._open_store()
        async with store.transaction() as uow:
            assert await forget_account(uow, "vastai")
        await store.close()
        await self.start()

    def made_there(self) -> int:
        return len(self.elsewhere.market.live())


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TwoAccounts]:
    async with a_world(tmp_path / "mine", kind=TwoAccounts) as made:
        assert isinstance(made, TwoAccounts)
        config = SandboxConfig(state_dir=tmp_path / "others", real_processes=False, account_id=124)
        async with running_sandbox(config, made.clock) as others:
            made.elsewhere = others
            made.agents.total_steps = 5_000
            await made.tick()
            yield made


async def lose_a_create(world: TwoAccounts) -> str:
    """The market makes it, and says nothing. The daemon ends before it can look."""
    await world.fault("create", "effect_then_500")
    await world.submit()
    await world.engine.tick()
    (lease,) = await world.leases()
    assert lease.state is LeaseState.INTENT
    return lease.id


async def test_an_unresolved_create_is_not_made_again_in_another_account(world: TwoAccounts) -> None:
    lease_id = await lose_a_create(world)
    await world.change_key(is_other=True)
    await world.tick(TICKS)
    assert (await world.lease(lease_id)).state is LeaseState.INTENT
    assert world.made_there() == 0
    await world.change_key(is_other=False)
    await world.until_running()
    assert [each.id for each in await world.leases()] == [lease_id], "found by its label, and used"
    assert world.creates() == 1


async def test_a_user_who_has_looked_confirms_it_and_cancels_the_job(world: TwoAccounts) -> None:
    lease_id = await lose_a_create(world)
    await world.change_key(is_other=True)
    await world.jobs.cancel("train")
    await world.tick(TICKS)
    assert (await world.lease(lease_id)).state is LeaseState.INTENT, "a cancel proves nothing of the machine"
    await world.take_account()
    await world.tick(TICKS)
    assert (await world.job()).status is JobStatus.CANCELLED
    assert (await world.lease(lease_id)).state is LeaseState.ABANDONED
    await world.submit()
    await world.until(lambda job: job.main is not None, "a machine in the new account")
    await world.change_key(is_other=False)
    await world.tick(TICKS)
    assert world.ours() == [], "what the create had made is found and destroyed"


@pytest.mark.slow
async def test_a_machine_of_the_other_account_is_not_gone_and_not_replaced(world: TwoAccounts) -> None:
    await world.submit()
    lease = await world.until_running()
    await world.change_key(is_other=True)
    await world.tick(TICKS)
    assert [(each.id, each.state) for each in await world.leases()] == [(lease.id, LeaseState.ACTIVE)]
    assert world.made_there() == 0
    assert len(world.ours()) == 1
    await world.change_key(is_other=False)
    await world.tick(TICKS)
    assert [each.id for each in await world.leases()] == [lease.id]
    assert world.creates() == 1


async def test_nothing_is_rented_for_another_job_meanwhile(world: TwoAccounts) -> None:
    await world.submit()
    await world.until_running()
    await world.change_key(is_other=True)
    await world.submit(JOB.replace("train", "other", 1))
    await world.tick(TICKS)
    assert (await world.job()).status is JobStatus.PENDING
    assert world.made_there() == 0
    assert (await world.events()).count("market.account_changed") == 1
    await world.take_account()
    await world.until(lambda job: job.main is not None and job.main.instance_id is not None, "a machine there")


async def test_a_machine_that_was_to_be_destroyed_is_not_gone(world: TwoAccounts) -> None:
    """The other account says that there is no such machine."""
    await world.submit()
    await world.until_running()
    await world.change_key(is_other=True)
    await world.jobs.cancel("train")
    await world.tick(TICKS)
    (lease,) = await world.leases()
    assert not lease.is_over
    assert len(world.ours()) == 1
    await world.change_key(is_other=False)
    await world.tick(TICKS)
    assert world.ours() == []
    assert (await world.lease(lease.id)).state is LeaseState.GONE


async def test_a_new_key_of_the_same_account_is_known_by_its_machines(world: TwoAccounts) -> None:
    """Where a market tells no account, each key seems to be another one's."""
    await world.submit()
    lease = await world.until_running()
    async with world.store.transaction() as uow:
        await uow.notes.set(NOTE, json.dumps({"vastai": "0123456789ab"}))
    await world.restart()
    await world.tick(2)
    async with world.store.snapshot() as uow:
        assert json.loads(await uow.notes.get(NOTE) or "{}")["vastai"] != "0123456789ab"
    world.market.lifecycle.host_lost(world.instance(lease))
    await world.until(lambda job: job.main is not None and job.main.id != lease.id, "another machine")


async def test_another_account_is_taken_where_nothing_is_unresolved(world: TwoAccounts) -> None:
    await world.change_key(is_other=True)
    await world.submit()
    await world.until(lambda job: job.main is not None and job.main.instance_id is not None, "a machine there")
    assert (world.creates(), world.made_there()) == (0, 1)
