"""A market without a certificate: so much may be spent there, by all jobs together, and one machine at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.certificate import Certificate, ClaimFinding, ClaimVerdict
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.ledger import EntryType
from autopilot.domain.reasons import Reason
from autopilot.engine.accrue import entry
from autopilot.engine.certification import CertifyRules, end_certificate
from autopilot.ports.provider import Provider
from autopilot.providers import registry
from tests.integration.engine.engine_world import JOB, D, World, a_world

VERSION = "9.9"
ALLOWANCE = "0.90"
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "9h"')
SECOND = LONG_JOB.replace('name = "train"', 'name = "second"')


class UncertifiedWorld(World):
    """The market needs a certificate, as a real one, and has none."""

    rules = CertifyRules(VERSION, frozenset({"vastai"}), frozenset({"vastai"}), allowance=D(ALLOWANCE))

    async def start(self) -> None:
        self.certify_rules = self.rules
        await super().start()


class TwoMarkets(UncertifiedWorld):
    """RunPod beside it, which needs none."""

    def connect_others(self) -> tuple[Provider, ...]:
        settings = {"base_url": self.sandbox.url, "api_key": "runpod-sandbox-key", "timeout_s": self.timeout_s}
        return (registry.connect("runpod", settings, self.clock),)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[UncertifiedWorld]:
    async with a_world(tmp_path, kind=UncertifiedWorld) as made:
        assert isinstance(made, UncertifiedWorld)
        made.agents.total_steps = 100_000
        await made.tick()
        yield made


async def submit(world: World, text: str = LONG_JOB) -> str:
    await world.submit(text, accept_any=True)
    return str(world.job_id)


async def find(world: World, job_id: str) -> Job:
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(job_id)
    assert job is not None
    return job


async def certify(world: World, job_id: str, **changes: object) -> Certificate:
    """One based on no finding, in the name of that job."""
    now, account = world.clock.now(), world.engine.watches["vastai"].account_digest
    certificate = Certificate(job_id, "vastai", account, VERSION, now, now + timedelta(days=30))
    await save(world, replace(certificate, **changes))  # type: ignore[arg-type]
    return certificate


async def save(world: World, certificate: Certificate) -> None:
    async with world.store.transaction() as uow:
        await uow.certificates.save(certificate)


async def until_used_up(world: World, *job_ids: str) -> list[Job]:
    """Until none of them has a machine, and none gets one; never beyond the allowance by our own books."""
    idle = 0
    for _ in range(500):
        jobs = [await find(world, job_id) for job_id in job_ids]
        spent = sum((job.spent for job in jobs), D(0))
        idle = 0 if any(job.leases for job in jobs) else idle + 1
        if spent and idle > 5:
            return jobs
        await world.tick(apart_s=300 if spent < D(ALLOWANCE) / 2 else 15)
    raise AssertionError(f"not used up: {spent}, {await world.story()}")


async def billed(world: World) -> Decimal:
    """By the market's own books."""
    await world.until_settled()
    return sum((await world.spend()).values(), D(0))


def most_at_once(world: World) -> int:
    """Machines of ours at one time, ever, by the market's journal."""
    most, live = 0, set[object]()
    for each in world.market.journal.entries:
        if each.kind == "instance.created":
            live.add(each.fields["instance_id"])
        if each.kind == "instance.destroyed":
            live.discard(each.fields["instance_id"])
        most = max(most, len(live))
    return most


@pytest.mark.slow
async def test_a_machine_is_saved_and_given_back_before_the_allowance_is_passed(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    lease = await world.until_running()
    (job,) = await until_used_up(world, job_id)
    assert job.status.wants_capacity, "it is not parked: a certificate lets it go on"
    agent = world.agents.of(lease.instance_id)
    assert (agent.saved, job.checkpoint is not None and job.checkpoint.step == agent.step) == (True, True)
    assert (await world.lease(lease.id)).reason is Reason.OVER_UNCERTIFIED
    shown = (await world.jobs.show(job_id))["job"]
    assert shown["reason"] == "not_certified"
    conditions = {note["numbers"].get("condition") for note in shown["waiting"]["notes"]}
    assert "over_uncertified" in conditions
    assert shown["waiting"]["vetoes"] == [], "what the guard would refuse is not proposed"
    assert D("0.40") < await billed(world) <= D(ALLOWANCE)


async def test_without_a_certificate_all_jobs_have_one_machine_at_a_time(world: UncertifiedWorld) -> None:
    first, second = await submit(world), await submit(world, SECOND)
    await world.tick(8)
    jobs = [await find(world, each) for each in (first, second)]
    assert sorted(len(job.leases) for job in jobs) == [0, 1]
    waiting = next(job for job in jobs if not job.leases)
    shown = (await world.jobs.show(waiting.id))["job"]
    assert shown["reason"] == "not_certified"
    assert {n["numbers"].get("condition") for n in shown["waiting"]["notes"]} >= {"one_uncertified"}
    await world.jobs.cancel(next(job for job in jobs if job.leases).id)
    world.job_id = waiting.id
    await world.until_running()
    await until_used_up(world, first, second)
    assert (await find(world, waiting.id)).launches == 1
    assert most_at_once(world) == 1
    assert await billed(world) <= D(ALLOWANCE)


async def test_the_machine_is_the_cheapest_that_fits(world: UncertifiedWorld) -> None:
    await submit(world)
    offers = await world.engine.offers((await world.job()).spec.query)
    lease = await world.until_running()
    floors = {offer.machine_id: offer.floor for offer in offers if offer.floor is not None}
    assert floors[lease.machine_id] <= min(floors.values()) * D("1.05")


async def test_what_a_bill_adds_counts(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    lease = await world.until_running()
    now = world.clock.now()
    async with world.store.transaction() as uow:
        await uow.ledger.post([entry(EntryType.ADJUST, lease, CostKind.COMPUTE, now.date(), D(2), now, mark="late")])
    await world.until(lambda job: not job.leases, "its machine is given back")
    await world.tick(10)
    assert (await find(world, job_id)).leases == ()
    assert world.creates() == 1


@pytest.mark.slow
async def test_a_certificate_that_is_issued_meanwhile_ends_the_bounds(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    lease = await world.until_running()
    second = await submit(world, SECOND)
    await world.tick(4)
    assert (await find(world, second)).leases == ()
    await certify(world, job_id)
    await world.until_running()
    await world.tick(30, apart_s=300)
    assert (await world.lease(lease.id)).is_wanted
    assert sum([(await find(world, each)).spent for each in (job_id, second)], D(0)) > D(ALLOWANCE)


@pytest.mark.slow
async def test_a_machine_rented_under_a_certificate_goes_on_after_its_end_and_what_is_rented_then_draws(
    world: UncertifiedWorld,
) -> None:
    job_id = await submit(world)
    certificate = await certify(world, job_id)
    lease = await world.until_running()
    await world.tick(48, apart_s=300)
    spent = (await find(world, job_id)).spent
    assert spent > D(ALLOWANCE)
    await save(world, replace(certificate, ends_at=world.clock.now()))
    await world.tick(60, apart_s=300)
    assert (await world.lease(lease.id)).is_wanted, "it is paid as it was when it was rented"
    assert (await find(world, job_id)).spent - spent > D(ALLOWANCE)
    assert world.engine.uncertified_rooms()["vastai"].left == D(ALLOWANCE)

    second = await submit(world, SECOND)
    await world.tick(8)
    (new,) = (await find(world, second)).leases
    assert world.engine.uncertified_rooms()["vastai"].left < D(ALLOWANCE)
    await until_used_up(world, second)
    assert (await world.lease(lease.id)).is_wanted
    assert D("0.30") < (await find(world, second)).spent <= D(ALLOWANCE)
    assert (await world.lease(new.id)).reason is Reason.OVER_UNCERTIFIED


@pytest.mark.slow
async def test_another_version_s_certificate_is_outlived_once_and_not_at_each_start(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    await certify(world, job_id)
    lease = await world.until_running()
    await world.tick(48, apart_s=300)
    spent = (await find(world, job_id)).spent
    world.rules = replace(world.rules, version="9.10")
    for _ in range(3):
        await world.restart()
        await world.tick(12, apart_s=60)
    purse_since = world.engine.certification.uncertified["vastai"]
    assert purse_since is not None
    assert world.clock.now() - purse_since > timedelta(minutes=30)
    await world.tick(60, apart_s=300)
    assert (await world.lease(lease.id)).is_wanted
    assert (await find(world, job_id)).spent - spent > D(ALLOWANCE)


async def test_it_does_not_stand_in_for_a_certificate_that_a_field_of_money_has_ended(world: UncertifiedWorld) -> None:
    job_id = await submit(world, JOB.replace("train", "ended", 1))
    await certify(world, job_id)
    async with world.store.transaction() as uow:
        await end_certificate(uow, "vastai", "dph_base is text now", world.clock.now())
    await world.tick(6)
    assert world.creates() == 0
    assert (await world.jobs.show(job_id))["job"]["reason"] == "not_certified"


@pytest.mark.parametrize("how", ["claim", "only"])
async def test_nor_for_a_claim_that_does_not_hold_nor_while_there_are_only_certifications(
    world: UncertifiedWorld, how: str
) -> None:
    job_id = await submit(world)
    if how == "claim":
        await break_claim(world, job_id)
    else:
        world.rules = replace(world.rules, only=True)
        await world.restart()
    await world.tick(6)
    assert world.creates() == 0


async def break_claim(world: World, job_id: str) -> None:
    job = replace(await find(world, job_id), id="broken", certifies="vastai", status=JobStatus.SUCCEEDED, leases=())
    found = ClaimFinding("broken", "losing-bid-refused", ClaimVerdict.BROKEN, world.clock.now())
    async with world.store.transaction() as uow:
        await uow.jobs.save(job)
        await uow.certificates.save_findings([found])


@pytest.mark.slow
async def test_a_claim_that_breaks_while_a_machine_runs_leaves_it_within_the_allowance(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    await world.until_running()
    await break_claim(world, job_id)
    await until_used_up(world, job_id)
    assert await billed(world) <= D(ALLOWANCE)
    assert world.creates() == 1


@pytest.mark.slow
async def test_a_daemon_that_starts_anew_at_every_tick_keeps_it(world: UncertifiedWorld) -> None:
    job_id = await submit(world)
    for _ in range(60):
        await world.tick(apart_s=300)
        await world.restart()
        if (await find(world, job_id)).spent > D("0.5"):
            break
    await until_used_up(world, job_id)
    assert await billed(world) <= D(ALLOWANCE)


@pytest.mark.slow
async def test_a_permit_is_no_longer_than_a_quarter_of_an_hour_and_shorter_at_the_end(world: UncertifiedWorld) -> None:
    world.engine.config = replace(world.engine.config, permit_ttl_s=12 * 3600)
    job_id = await submit(world)
    lease = await world.until_running()
    given = []
    for _ in range(200):
        if not (await find(world, job_id)).leases:
            break
        held = await world.lease(lease.id)
        if held.orders.role == "run" and held.permit.ttl_s is not None:
            given.append(held.permit.ttl_s)
        await world.tick(apart_s=60)
    assert (max(given), min(given) < 600) == (900, True)


@pytest.mark.slow
async def test_a_job_goes_to_a_market_that_needs_none_once_the_allowance_is_used_up(tmp_path: Path) -> None:
    async with a_world(tmp_path, kind=TwoMarkets) as world:
        world.agents.total_steps = 100_000
        await world.tick()
        job_id = await submit(world)
        lease = await world.until_running()
        assert lease.provider == "vastai"
        await world.until(
            lambda job: any(each.provider == "runpod" for each in job.leases), "it is on runpod", most=300, apart_s=60
        )
        assert (await find(world, job_id)).spent <= D(ALLOWANCE)
