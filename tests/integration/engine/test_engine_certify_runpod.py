"""RunPod is certified, with spot and without: every claim settled, each broken one found, nothing left rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from certify_world import RunpodCertifyWorld, note_row, verdicts, with_one_fast
from engine_world import a_world

from autopilot.certify.claims import claims_of
from autopilot.domain.certificate import ClaimVerdict
from autopilot.lab.sandbox.runpod.exchange import Mode

SETTLED = tuple(claim.id for claim in claims_of("runpod") if claim.step is not None)
ON_SPOT = {"spot-is-rented", "losing-bid-refused", "graphql-limits", "probe-is-a-request", "login-made-through-rest"}
ON_SPOT |= {"bid-resumes", "volume-kept", "resumed-words", "sigterm-five-seconds"}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RunpodCertifyWorld]:
    async with a_world(tmp_path, kind=RunpodCertifyWorld, runpod_billing_lag_s=0.0) as made:
        assert isinstance(made, RunpodCertifyWorld)
        yield made


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


@pytest.mark.parametrize("claim", with_one_fast(SETTLED))
async def test_a_claim_that_does_not_hold_is_found(world: RunpodCertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    seen = await world.certified()
    note_row("RunPod", claim, seen, world.billed())
    found = verdicts(seen)
    assert found[claim] is ClaimVerdict.BROKEN
    assert ClaimVerdict.BROKEN not in {verdict for name, verdict in found.items() if name != claim}
    assert world.billed() <= 1
    assert world.rented() == []
