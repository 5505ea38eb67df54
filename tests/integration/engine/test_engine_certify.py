"""A market is certified: every claim settled for less than a dollar, each broken one found, nothing left rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from certify_world import CertifyWorld, verdicts
from engine_world import D, a_world

from autopilot.certify.claims import claims_of
from autopilot.domain.certificate import Verdict

SETTLED = tuple(claim.id for claim in claims_of("vastai") if claim.step is not None)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[CertifyWorld]:
    async with a_world(tmp_path, kind=CertifyWorld) as made:
        assert isinstance(made, CertifyWorld)
        yield made


async def test_every_claim_is_held_by_a_market_that_keeps_them_all(world: CertifyWorld) -> None:
    found = await world.certified()
    assert verdicts(found) == dict.fromkeys(sorted(SETTLED), Verdict.HELD)
    assert world.billed() <= 1
    assert world.ours() == []


@pytest.mark.parametrize("claim", SETTLED)
async def test_a_claim_that_does_not_hold_is_found(world: CertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    found = verdicts(await world.certified())
    assert found[claim] is Verdict.BROKEN
    others = {verdict for name, verdict in found.items() if name != claim}
    assert Verdict.BROKEN not in others, found
    assert world.billed() <= 1
    assert world.ours() == []


async def test_a_daemon_that_is_killed_at_every_tick_settles_them_all_the_same(world: CertifyWorld) -> None:
    await world.tick()
    await world.begin()
    for _ in range(400):
        if (await world.job()).status.is_final:
            break
        await world.tick()
        await world.restart()
    found = verdicts(await world.finish())
    assert found == dict.fromkeys(sorted(SETTLED), Verdict.HELD)
    assert world.creates() == 2
    assert world.billed() <= 1
    assert world.ours() == []


STEPS = ("refusal", "rent", "work", "run", "raise", "lower", "pause", "resume", "end")


@pytest.mark.parametrize("step", STEPS)
async def test_a_daemon_that_dies_in_a_step_leaves_nothing_that_runs(world: CertifyWorld, step: str) -> None:
    """Machines end themselves; one that is paused cannot, and is given back when the daemon is there again."""
    await world.tick()
    await world.begin()
    for _ in range(400):
        await world.tick()
        async with world.store.snapshot() as uow:
            if step in {mark.step for mark in await uow.certificates.list_marks(world.job_id)}:
                break
    await world.stop()
    await world.pass_without_daemon(40)
    assert [each for each in world.ours() if each.holding] == []
    await world.start()
    await world.finish()
    assert world.ours() == []
    assert world.billed() <= 1


async def test_no_more_is_spent_than_was_allowed(world: CertifyWorld) -> None:
    world.break_claims(["own-key-destroys"])
    await world.certified("0.25")
    assert 0 < world.billed() <= D("0.25")
    assert world.ours() == []


async def test_a_market_that_answers_badly_leaves_nothing_rented(world: CertifyWorld) -> None:
    for on in ("create", "list", "bid", "destroy", "show", "search"):
        await world.fault(on, "http_500", times=None, probability=0.2)
        await world.fault(on, "effect_then_500", times=None, probability=0.1)
    await world.certified()
    await world.clear_faults()
    await world.until_settled()
    assert world.ours() == []
    assert world.billed() <= 1
