"""A market without a certificate is proved by use: the machine of the first job that ends well there gets no more
permits, and must destroy itself. Where none can, it is destroyed like any other, and must be gone from the list.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from autopilot.domain.certificate import DELETE, LABEL, OWN_KEY, ClaimFinding, ClaimVerdict, Lack
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import show
from autopilot.domain.reasons import Reason
from autopilot.engine.certification import CertifyRules, end_certificate
from autopilot.mailbox.keys import orders_key
from autopilot.policy.proof import most_cost
from autopilot_lab.sandbox.market.instances import Container, Contract
from tests.integration.engine.engine_agents import ORDERS, Agents
from tests.integration.engine.engine_world import JOB, D, World, a_world
from tests.integration.engine.nebius_world import JOB as NEBIUS_JOB
from tests.integration.engine.nebius_world import NebiusWorld

VERSION = "9.9"
RULES = CertifyRules(VERSION, frozenset({"vastai"}), frozenset({"vastai"}), allowance=D(5))
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "9h"')
SECOND, THIRD = (LONG_JOB.replace('name = "train"', f'name = "{name}"') for name in ("second", "third"))


class CountingAgents(Agents):
    """They count their permits, and destroy their machines with the key that is on them, as real ones do."""

    def __init__(self, world: ProofWorld) -> None:
        super().__init__(world.blobs, world.market)
        self._world = world
        self._permits: dict[int, tuple[int, datetime]] = {}

    async def act(self, now: datetime) -> None:
        for instance in self._world.market.live():
            if instance.container is Container.RUNNING and now >= await self._permit_until(instance, now):
                await self._destroy(instance)
        await super().act(now)

    async def _permit_until(self, instance: Contract, now: datetime) -> datetime:
        told = ORDERS.search(instance.order.onstart or "")
        data = None if told is None else await self._world.blobs.get(orders_key(told["job_id"], told["lease_id"]))
        seq, until = self._permits.get(instance.id, (-1, now + timedelta(minutes=15)))
        orders = json.loads(data) if data else {"seq": -1}
        if orders["seq"] > seq:
            seq, until = orders["seq"], now + timedelta(seconds=orders["permit_ttl_s"])
        self._permits[instance.id] = seq, until
        return until

    async def _destroy(self, instance: Contract) -> None:
        env = self._world.sandbox.environment(instance)
        url = f"{self._world.sandbox.url}/api/v0/instances/{env['CONTAINER_ID']}/"
        headers = {"Authorization": f"Bearer {env['CONTAINER_API_KEY']}"}
        async with self._world.http.delete(url, json={}, headers=headers) as answer:
            await answer.read()


class ProofWorld(World):
    """The market needs a certificate, as a real one, and has an allowance instead."""

    async def start(self) -> None:
        self.certify_rules = RULES
        if not isinstance(self.agents, CountingAgents):
            self.agents = CountingAgents(self)
        await super().start()
        self.engine.config = replace(self.engine.config, permit_ttl_s=3600)

    @property
    def is_proved(self) -> bool:
        return self.engine.certification.proof_of("vastai", self.clock.now()).is_made

    async def found(self) -> dict[str, ClaimFinding]:
        async with self.store.snapshot() as uow:
            return {each.claim: each for each in await uow.certificates.list_findings_on("vastai")}

    async def lapsing(self) -> Lease:
        """The machine of a job that has ended well, under its last permit."""
        await self.submit(JOB, accept_any=True)
        job = await self.until(lambda job: job.on_hold is not None, "its permit is let lapse", most=400)
        assert job.status is JobStatus.SUCCEEDED
        assert job.main is not None
        assert job.main.is_proving
        return job.main

    async def until_gone(self) -> None:
        await self.until(lambda job: not job.leases, "its machine is gone", most=300)
        await self.tick()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ProofWorld]:
    async with a_world(tmp_path, kind=ProofWorld) as made:
        assert isinstance(made, ProofWorld)
        await made.tick()
        yield made


async def test_the_machine_destroys_itself_and_the_market_is_proved(world: ProofWorld) -> None:
    lease = await world.lapsing()
    (told,) = [note for note in world.plan["notes"] if "its permit is let run out" in note]
    rate = lease.burn_upper
    assert f"{show(most_cost(rate), 3)} at the present {show(rate, 3)} an hour" in told
    why = await world.jobs.why(world.job_id, limit=3)
    told = {note["topic"]: note["numbers"] for decision in why["decisions"] for note in decision["notes"]}
    assert D(told["proof"]["reserve"]) > 0
    assert (lease.permit.ttl_s or 0) <= 900
    room = world.engine.uncertified_rooms()["vastai"]
    assert room.is_taken
    await world.until_gone()
    gone = await world.lease(lease.id)
    assert (gone.state, gone.reason, gone.ending.attempts) == (LeaseState.GONE, Reason.PROVING, 0)
    assert gone.permit.seq == lease.permit.seq
    found = await world.found()
    assert {found[claim].verdict for claim in (LABEL, OWN_KEY)} == {ClaimVerdict.HELD}
    assert world.is_proved
    assert world.engine.certification.lack_of("vastai", world.clock.now()) is Lack.MISSING, "the allowance still binds"
    assert world.creates() == 1
    await world.until_settled()
    assert (await world.job()).status is JobStatus.SUCCEEDED


@pytest.mark.slow
async def test_then_there_are_several_machines_and_long_permits_and_the_next_job_lets_none_lapse(
    world: ProofWorld,
) -> None:
    await world.lapsing()
    await world.until_gone()
    world.agents.total_steps = 2000
    for text in (SECOND, THIRD):
        await world.submit(text, accept_any=True)
        await world.until_running()
    await world.tick(10)
    (lease,) = await world.leases()
    assert (lease.permit.ttl_s or 0) > 900
    assert len(world.ours()) == 2
    await world.until(lambda job: not job.leases, "the job is over", most=600)
    assert (await world.leases())[-1].reason is Reason.COMPLETED


async def test_a_machine_that_stays_is_destroyed_and_its_market_is_stopped(world: ProofWorld) -> None:
    world.market.broken.update(["own-key-destroys"])
    lease = await world.lapsing()
    await world.until_gone()
    assert (await world.lease(lease.id)).ending.attempts > 0
    assert (await world.found())[OWN_KEY].verdict is ClaimVerdict.BROKEN
    assert world.engine.certification.lack_of("vastai", world.clock.now()) is Lack.CLAIM_BROKEN
    assert not world.is_proved
    await world.submit(SECOND, accept_any=True)
    await world.tick(8)
    assert world.creates() == 1


async def test_a_daemon_that_is_killed_meanwhile_goes_on_with_it(world: ProofWorld) -> None:
    lease = await world.lapsing()
    for _ in range(12):
        await world.restart()
        await world.tick(8)
    await world.until_gone()
    assert (await world.lease(lease.id)).permit.seq == lease.permit.seq
    assert world.is_proved
    assert world.creates() == 1


async def test_a_daemon_that_was_dead_at_the_end_of_the_permit_takes_nothing_for_proved(world: ProofWorld) -> None:
    await world.lapsing()
    await world.stop()
    for _ in range(40):
        world.sandbox.synchronise()
        await world.agents.act(world.clock.now())
        world.clock.advance(60)
    assert world.ours() == []
    await world.start()
    await world.until_gone()
    assert not world.is_proved, "its host may have failed"


async def test_a_machine_that_is_given_back_by_its_owner_proves_nothing(world: ProofWorld) -> None:
    lease = await world.lapsing()
    await world.jobs.cancel(world.job_id)
    await world.until_gone()
    assert (await world.lease(lease.id)).reason is Reason.USER_RELEASED
    assert not world.is_proved
    assert OWN_KEY not in await world.found()


@pytest.mark.slow
async def test_it_ends_with_a_change_of_a_field_of_money_and_for_another_version(world: ProofWorld) -> None:
    await world.lapsing()
    await world.until_gone()
    certification = world.engine.certification
    assert world.is_proved
    certification.rules = replace(RULES, version="9.10")
    assert not world.is_proved
    certification.rules = RULES
    async with world.store.transaction() as uow:
        await end_certificate(uow, "vastai", "dph_base is text now", world.clock.now())
    await world.tick()
    assert not world.is_proved


class NoLapse(NebiusWorld):
    """Nebius needs a certificate, and has an allowance instead: its machines can only switch themselves off."""

    async def start(self) -> None:
        self.certify_rules = CertifyRules(VERSION, frozenset({"nebius"}), frozenset({"nebius"}), allowance=D(9))
        await super().start()

    async def use(self) -> tuple[bool, dict[str, ClaimVerdict]]:
        """Whether the market is proved, and what its use has shown, once a job has ended and its machine was given
        back."""
        await self.running(NEBIUS_JOB, accept_any=True)
        await self.until(lambda job: job.status.is_final and not job.leases, "its machine is gone", most=400)
        job = await self.job()
        assert (job.status, job.on_hold) == (JobStatus.SUCCEEDED, None), "nothing is kept to prove it"
        async with self.store.snapshot() as uow:
            found = {each.claim: each.verdict for each in await uow.certificates.list_findings_on("nebius")}
        return self.engine.certification.proof_of("nebius", self.clock.now()).is_made, found


@pytest.fixture
async def no_lapse(tmp_path: Path) -> AsyncIterator[NoLapse]:
    async with a_world(tmp_path, kind=NoLapse, nebius_port=0) as made:
        assert isinstance(made, NoLapse)
        yield made


async def test_where_no_machine_can_destroy_itself_a_destroy_seen_in_the_list_proves_the_market(
    no_lapse: NoLapse,
) -> None:
    is_proved, found = await no_lapse.use()
    assert (is_proved, found[LABEL], found[DELETE]) == (True, ClaimVerdict.HELD, ClaimVerdict.HELD)
    assert OWN_KEY not in found
    await no_lapse.check_books()


@pytest.mark.slow
async def test_a_destroy_after_which_the_list_shows_the_machine_for_long_proves_nothing(no_lapse: NoLapse) -> None:
    no_lapse.sandbox.nebius.broken.add(DELETE)
    is_proved, found = await no_lapse.use()
    assert (is_proved, DELETE in found) == (False, False)
    assert no_lapse.engine.uncertified_rooms()["nebius"].proof.is_due
