"""A market is certified: every claim settled for less than a dollar, each broken one found, nothing left rented."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Job
from autopilot.api.metrics import Metrics
from autopilot.domain.certificate import Certificate, ClaimVerdict
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Role
from autopilot.engine.certification import end_certificate
from autopilot.ids import UlidIds
from autopilot.markets.installed import claims_of
from autopilot.notices.outbox import Announcer, AnnouncingStore, Subscription
from autopilot.ports.store import Store
from autopilot.words import reasons
from autopilot_lab.sandbox.market.metering import GPU
from tests.integration.engine.certify_world import VERSION, CertifyWorld, note_row, verdicts
from tests.integration.engine.engine_world import JOB, D, a_world
from tests.variants import first_of

SETTLED = tuple(claim.id for claim in claims_of("vastai") if claim.step is not None)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[CertifyWorld]:
    async with a_world(tmp_path, kind=CertifyWorld) as made:
        assert isinstance(made, CertifyWorld)
        yield made


@pytest.mark.slow
async def test_every_claim_is_held_by_a_market_that_keeps_them_all(world: CertifyWorld) -> None:
    found = await world.certified()
    assert verdicts(found) == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert world.billed() <= 1
    assert world.ours() == []


@pytest.mark.slow
@pytest.mark.parametrize("claim", first_of(SETTLED))
async def test_a_claim_that_does_not_hold_is_found(world: CertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    seen = await world.certified()
    note_row("vast.ai", claim, seen, world.billed())
    found = verdicts(seen)
    assert found[claim] is ClaimVerdict.BROKEN
    others = {verdict for name, verdict in found.items() if name != claim}
    assert ClaimVerdict.BROKEN not in others, found
    assert world.billed() <= 1
    assert world.ours() == []


@pytest.mark.slow
async def test_a_daemon_that_is_killed_at_every_tick_settles_them_all_the_same(world: CertifyWorld) -> None:
    await world.tick()
    await world.begin()
    for _ in range(400):
        if (await world.job()).status.is_final:
            break
        await world.tick()
        await world.restart()
    found = verdicts(await world.finish())
    # No daemon lives long enough to read the list after a search, or to dial a machine.
    for claim in ("floor-echoes-own-bid", "ssh-forwards"):
        assert found.pop(claim) is ClaimVerdict.NOT_SEEN
    assert {name: verdict for name, verdict in found.items() if verdict is not ClaimVerdict.HELD} == {}
    assert world.creates() == 3
    assert world.billed() <= 1
    assert world.ours() == []


STEPS = ("refusal", "rent", "work", "run", "raise", "nudge", "floor", "pause", "resume", "end", "pull")


@pytest.mark.slow
@pytest.mark.parametrize("step", first_of(STEPS))
async def test_a_daemon_that_dies_in_a_step_leaves_nothing_that_runs(world: CertifyWorld, step: str) -> None:
    """Machines end themselves. One that is paused, or does not get its image, cannot: it bills its disk until the
    daemon is there again.
    """
    await world.tick()
    await world.begin()
    for _ in range(400):
        await world.tick()
        async with world.store.snapshot() as uow:
            if step in {mark.step for mark in await uow.certificates.list_marks(world.job_id)}:
                break
    await world.stop()
    await world.pass_without_daemon(40)
    assert [each for each in world.ours() if each.meter.running(GPU)] == []
    await world.start()
    await world.finish()
    assert world.ours() == []
    assert world.billed() <= 1


@pytest.mark.slow
async def test_no_more_is_spent_than_was_allowed(world: CertifyWorld) -> None:
    world.break_claims(["own-key-destroys"])
    await world.certified("0.25")
    assert 0 < world.billed() <= D("0.25")
    assert world.ours() == []


@pytest.mark.slow
async def test_a_market_that_answers_badly_leaves_nothing_rented(world: CertifyWorld) -> None:
    for on in ("create", "list", "bid", "destroy", "show", "search"):
        await world.fault(on, "http_500", times=None, probability=0.2)
        await world.fault(on, "effect_then_500", times=None, probability=0.1)
    await world.certified()
    await world.clear_faults()
    await world.until_settled()
    assert world.ours() == []
    assert world.billed() <= 1


# --- what a certificate is for


async def ticks_without_a_machine(world: CertifyWorld, times: int = 8) -> None:
    """The job wants one, and is refused one."""
    creates = world.creates()
    await world.tick(times)
    assert world.creates() == creates
    why = await world.jobs.why(world.job_id, limit=1)
    shown = {note["numbers"]["condition"] for note in why["job"]["waiting"]["notes"] if note["topic"] == "removed"}
    assert shown == {"not_certified"}


async def given_a_certificate(world: CertifyWorld, days: int = 30) -> Certificate:
    """One based on no finding, in the name of the newest job."""
    now, account = world.clock.now(), world.engine.watches["vastai"].account_digest
    certificate = Certificate(world.job_id, "vastai", account, VERSION, now, now + timedelta(days=days))
    async with world.store.transaction() as uow:
        await uow.certificates.save(certificate)
    return certificate


@pytest.mark.slow
async def test_a_job_waits_for_a_certificate_and_begins_with_it(world: CertifyWorld) -> None:
    await world.tick()
    await world.submit(JOB, accept_any=True)
    job_id = world.job_id
    assert any("certificate is missing" in note for note in world.plan["notes"])
    await ticks_without_a_machine(world)
    await world.begin()
    await world.until(lambda job: job.status.is_final, "the certification is over", most=1000)
    (certificate,) = await world.certificates()
    assert (certificate.provider, certificate.version) == ("vastai", "9.9")
    assert certificate.account != ""
    world.job_id = job_id
    await world.until_running()


async def test_one_that_ends_within_a_week_is_said_in_every_decision(world: CertifyWorld) -> None:
    await world.tick()
    for days, is_said in ((8, False), (6, True)):
        await world.submit(JOB.replace("train", f"of-{days}-days", 1), accept_any=True)
        await given_a_certificate(world, days)
        await world.until_running()
        why = await world.jobs.why(world.job_id, limit=5)
        topics = {note["topic"] for decision in why["decisions"] for note in decision["notes"]}
        assert ("certificate_ends" in topics) is is_said


@pytest.mark.slow
async def test_when_it_is_over_machines_go_on_and_new_ones_are_refused(world: CertifyWorld) -> None:
    await world.tick()
    await world.submit(JOB, accept_any=True)
    certificate = await given_a_certificate(world)
    lease = await world.until_running()
    async with world.store.transaction() as uow:
        await uow.certificates.save(replace(certificate, ends_at=world.clock.now()))
    permit = lease.permit.seq
    await world.tick(40)
    assert (await world.lease(lease.id)).permit.seq > permit
    assert (await world.job()).status is JobStatus.RUNNING
    await world.submit(JOB.replace("train", "second", 1), accept_any=True)
    await ticks_without_a_machine(world)


async def test_people_are_told_days_before_it_ends_and_once_it_is_over(tmp_path: Path) -> None:
    def wrap(store: Store) -> Store:
        sinks = {"ops": Subscription()}
        return AnnouncingStore(store, Announcer(sinks, UlidIds(told.clock), str), lambda: None)

    async with a_world(tmp_path, kind=CertifyWorld) as told:
        assert isinstance(told, CertifyWorld)
        await told.tick()
        await told.submit(JOB, accept_any=True)
        certificate = await given_a_certificate(told, days=8)
        told.wrap = wrap
        await told.restart()
        await told.tick(2)
        await told.jobs.cancel(told.job_id)
        await told.tick(3)
        assert await figures(told) == (1, certificate.ends_at)
        assert await heard(told, "certificate_") == []
        told.clock.advance(timedelta(days=2).total_seconds())
        await told.tick(2)
        await told.restart()
        await told.tick(2)
        assert await heard(told, "certificate_ends") == ["The certificate of vastai expires in 5 d 23 h"]
        told.clock.advance(timedelta(days=7).total_seconds())
        await told.tick(2)
        await told.restart()
        await told.submit(JOB.replace("train", "second", 1), accept_any=True)
        await ticks_without_a_machine(told)
        assert await heard(told, "certificate_lacked") == [
            "Nothing new is rented on vastai: it has no valid certificate"
        ]
        assert await figures(told) == (0, certificate.ends_at)


async def heard(world: CertifyWorld, kind: str) -> list[str]:
    async with world.store.snapshot() as uow:
        due = await uow.notices.list_due("ops", world.clock.now(), limit=100)
    return [notice.title for notice in due if notice.kind.startswith(kind)]


async def figures(world: CertifyWorld) -> tuple[float, datetime]:
    """What Prometheus reads: whether it is in force, and when it ends."""
    text = (await Metrics(world.engine, world.store, world.clock).render()).decode()
    found = dict(re.findall(r'^autopilot_certificate_(\w+)\{provider="vastai"\} (\S+)$', text, re.MULTILINE))
    return float(found["in_force"]), datetime.fromtimestamp(float(found["ends_timestamp_seconds"]), UTC)


@pytest.mark.parametrize("version", ["9.9", "9.8"])
async def test_a_job_and_an_array_that_wait_for_one_say_so_and_what_to_type(world: CertifyWorld, version: str) -> None:
    """Missing as well as another version's, as after an upgrade."""
    await world.tick()
    await world.submit(JOB, accept_any=True)
    if version != VERSION:
        certificate = await given_a_certificate(world)
        async with world.store.transaction() as uow:
            await uow.certificates.save(replace(certificate, version=version))
    lack = "none" if version == VERSION else "for another version"
    command = f'vastai, which has no valid certificate ({lack}): autopilot certify vastai --budget "$1.00"'
    await ticks_without_a_machine(world)
    await world.submit(JOB.replace("train", "many", 1) + "[array]\ncount = 3\n", accept_any=True)
    await world.tick(3)
    for name in ("train", "many"):
        job = from_json(Job, (await world.jobs.show(name))["job"])
        assert job.reason == "not_certified"
        assert command in reasons.brief(job)


async def test_a_field_of_money_that_has_changed_ends_it(world: CertifyWorld) -> None:
    await world.tick()
    await world.submit(JOB, accept_any=True)
    await given_a_certificate(world)
    async with world.store.transaction() as uow:
        await end_certificate(uow, "vastai", "dph_base is text now", world.clock.now())
    await ticks_without_a_machine(world)
    assert (await world.certify.report("vastai"))["certificate"]["ended_because"] == "dph_base is text now"
    assert "certificate.ended" in await world.events()


@pytest.mark.slow
async def test_a_broken_claim_that_matters_stops_the_market_until_it_is_accepted(world: CertifyWorld) -> None:
    world.break_claims(["losing-bid-refused"])
    await world.certified()
    await world.submit(JOB, accept_any=True)
    await ticks_without_a_machine(world)
    report = await world.certify.report("vastai")
    assert report["certificate"]["broken"] == ["losing-bid-refused"]
    with pytest.raises(UserError, match="no claim 'own-id'"):
        await world.certify.accept("vastai", "own-id")
    await world.certify.accept("vastai", "losing-bid-refused")
    await world.until_running()


@pytest.mark.slow
async def test_a_broken_claim_that_does_not_matter_stops_nothing(world: CertifyWorld) -> None:
    world.break_claims(["no-sigterm"])
    await world.certified()
    await world.running(JOB, accept_any=True)


@pytest.mark.slow
async def test_to_do_without_one_leaves_broken_claims_in_force(world: CertifyWorld) -> None:
    world.rules = replace(world.rules, needed_on=frozenset())
    world.break_claims(["losing-bid-refused"])
    await world.restart()
    await world.running(JOB, accept_any=True)
    await world.jobs.cancel(world.job_id)
    await world.certified()
    await world.submit(JOB, accept_any=True)
    await ticks_without_a_machine(world)


@pytest.mark.slow
async def test_a_daemon_for_certifications_alone_rents_for_nothing_else(world: CertifyWorld) -> None:
    world.rules = replace(world.rules, only=True)
    await world.restart()
    await world.tick()
    await world.submit(JOB, accept_any=True)
    await ticks_without_a_machine(world)
    found = await world.certified()
    assert found["own-id"].verdict is ClaimVerdict.HELD


@pytest.mark.slow
async def test_one_certification_of_a_market_at_a_time(world: CertifyWorld) -> None:
    await world.tick()
    await world.begin()
    with pytest.raises(UserError, match="is already being certified"):
        await world.begin()
    for budget in ("0.10", "50"):
        with pytest.raises(UserError, match="a certification takes from"):
            await world.begin(budget)
    with pytest.raises(UserError, match="cannot be certified"):
        await world.certify.begin("lambda", D(1), (), owner=1000, token=None)
    with pytest.raises(UserError, match="RTX 9999"):
        await world.certify.begin("vastai", D(1), ("RTX 9999",), owner=1000, token=None)


async def test_a_certification_that_is_cancelled_gives_its_machine_back(world: CertifyWorld) -> None:
    await world.tick()
    await world.begin()
    await world.until_running()
    await world.jobs.cancel(world.job_id)
    await world.until(lambda job: job.status is JobStatus.CANCELLED, "it is cancelled")
    assert world.ours() == []
    assert await world.certificates() == ()


@pytest.mark.slow
async def test_a_bid_that_was_lost_once_breaks_no_claim(world: CertifyWorld) -> None:
    await world.fault("bid", "no_effect_success", times=1)
    assert verdicts(await world.certified()) == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)


@pytest.mark.slow
async def test_a_machine_that_is_lost_at_the_end_has_not_ended_itself(world: CertifyWorld) -> None:
    await world.tick()
    await world.begin()
    await world.until(lambda job: job.main is not None and job.main.orders.role is Role.SAVE_AND_STOP, "the end", 600)
    await world.tick(3)
    (instance,) = world.ours()
    world.market.destroy(instance.id, "market")
    assert (await world.finish())["own-key-destroys"].verdict is ClaimVerdict.NOT_SEEN
