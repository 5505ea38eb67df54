"""Nebius is certified: every claim that a step settles is, each broken one is found, and nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.certificate import ClaimVerdict
from autopilot.markets.installed import claims_of
from tests.integration.engine.certify_world import NebiusCertifyWorld, note_row, verdicts
from tests.integration.engine.engine_world import D, a_world
from tests.variants import first_of

SETTLED = tuple(claim.id for claim in claims_of("nebius") if claim.step is not None)
BUDGET = "3.00"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NebiusCertifyWorld]:
    async with a_world(tmp_path, kind=NebiusCertifyWorld, nebius_port=0) as made:
        assert isinstance(made, NebiusCertifyWorld)
        yield made


@pytest.mark.slow
async def test_every_claim_is_held_by_a_market_that_keeps_them_all(world: NebiusCertifyWorld) -> None:
    found = verdicts(await world.certified(BUDGET))
    assert found == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert 0 < world.billed() <= D(BUDGET)
    assert world.rented() == []


@pytest.mark.slow
@pytest.mark.parametrize("claim", first_of(SETTLED))
async def test_a_claim_that_does_not_hold_is_found(world: NebiusCertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    seen = await world.certified(BUDGET)
    note_row("Nebius", claim, seen, world.billed())
    found = verdicts(seen)
    assert found[claim] is ClaimVerdict.BROKEN
    assert ClaimVerdict.BROKEN not in {verdict for name, verdict in found.items() if name != claim}
    assert world.billed() <= D(BUDGET)
    assert world.rented() == []


@pytest.mark.slow
async def test_a_daemon_that_is_killed_at_every_tick_settles_them_all_the_same(world: NebiusCertifyWorld) -> None:
    await world.tick()
    await world.begin(BUDGET)
    for _ in range(400):
        if (await world.job()).status.is_final:
            break
        await world.tick()
        await world.restart()
    found = verdicts(await world.finish())
    assert found == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert world.rented() == []
