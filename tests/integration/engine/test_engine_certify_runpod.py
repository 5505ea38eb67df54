"""RunPod is certified, with spot and without: every claim settled, each broken one found, nothing left rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.certificate import ClaimVerdict
from autopilot.markets.installed import claims_of
from autopilot_lab.sandbox.runpod.exchange import Mode
from tests.integration.engine.certify_world import RunpodCertifyWorld, note_row, verdicts
from tests.integration.engine.engine_world import D, a_world
from tests.variants import first_of

SETTLED = tuple(claim.id for claim in claims_of("runpod") if claim.step is not None)
ON_SPOT = {"spot-is-rented", "losing-bid-refused", "graphql-limits", "probe-is-a-request", "login-made-through-rest"}
ON_SPOT |= {"bid-resumes", "volume-kept", "resumed-words", "sigterm-five-seconds"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RunpodCertifyWorld]:
    async with a_world(tmp_path, kind=RunpodCertifyWorld, runpod_billing_lag_s=0.0) as made:
        assert isinstance(made, RunpodCertifyWorld)
        yield made


@pytest.mark.slow
async def test_every_claim_is_held_by_a_market_that_keeps_them_all(world: RunpodCertifyWorld) -> None:
    found = verdicts(await world.certified())
    assert found == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert world.billed() <= 1
    assert world.rented() == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.NO_SUPPLY, Mode.MUTATION_REMOVED, Mode.GRAPHQL_GONE])
async def test_a_market_without_spot(world: RunpodCertifyWorld, mode: Mode) -> None:
    world.sandbox.runpod.mode = mode
    found = verdicts(await world.certified())
    others = {verdict for claim, verdict in found.items() if claim not in ON_SPOT}
    assert others == {ClaimVerdict.HELD}
    assert found["spot-is-rented"] is (ClaimVerdict.BROKEN if mode is Mode.NO_SUPPLY else ClaimVerdict.NOT_SEEN)
    assert world.billed() <= 1
    assert world.rented() == []


@pytest.mark.slow
@pytest.mark.parametrize("claim", first_of(SETTLED))
async def test_a_claim_that_does_not_hold_is_found(world: RunpodCertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    seen = await world.certified()
    note_row("RunPod", claim, seen, world.billed())
    found = verdicts(seen)
    assert found[claim] is ClaimVerdict.BROKEN
    assert ClaimVerdict.BROKEN not in {verdict for name, verdict in found.items() if name != claim}
    assert world.billed() <= 1
    assert world.rented() == []


@pytest.mark.slow
async def test_a_daemon_that_is_killed_at_every_tick_settles_them_all_the_same(world: RunpodCertifyWorld) -> None:
    await world.tick()
    await world.begin()
    for _ in range(400):
        if (await world.job()).status.is_final:
            break
        await world.tick()
        await world.restart()
    found = verdicts(await world.finish())
    assert found == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert world.billed() <= 1
    assert world.rented() == []


STEPS = ("stop", "refusal", "rent", "work", "run", "start", "end", "pull")


@pytest.mark.slow
@pytest.mark.parametrize("step", first_of(STEPS))
async def test_a_daemon_that_dies_in_a_step_leaves_nothing_that_runs(world: RunpodCertifyWorld, step: str) -> None:
    await world.tick()
    await world.begin()
    for _ in range(400):
        await world.tick()
        async with world.store.snapshot() as uow:
            if step in {mark.step for mark in await uow.certificates.list_marks(world.job_id)}:
                break
    await world.stop()
    await world.pass_without_daemon(40)
    assert [pod for pod in world.rented() if pod.holds_gpus] == []
    await world.start()
    await world.finish()
    assert world.rented() == []
    assert world.billed() <= 1


@pytest.mark.slow
async def test_a_market_that_answers_badly_leaves_nothing_rented(world: RunpodCertifyWorld) -> None:
    changes = ("podRentInterruptable", "podBidResume", "podStop", "podTerminate")
    for on in (*changes, "myself", "gpuTypes", "v2.registries"):
        await world.emu("POST", "runpod/fault", on=on, kind="http_500", times=None, probability=0.2)
        await world.emu("POST", "runpod/fault", on=on, kind="effect_then_500", times=None, probability=0.1)
    await world.certified()
    await world.emu("DELETE", "runpod/faults")
    await world.tick(20)
    assert world.rented() == []
    assert world.billed() <= 1


@pytest.mark.slow
async def test_no_more_is_spent_than_was_allowed(world: RunpodCertifyWorld) -> None:
    world.break_claims(["own-key-destroys"])
    await world.certified("0.25")
    assert 0 < world.billed() <= D("0.25")
    assert world.rented() == []
