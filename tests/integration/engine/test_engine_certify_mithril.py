"""Mithril is certified: every claim that a step settles is, each broken one is found, and no bid is left open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.certificate import ClaimVerdict
from autopilot.markets.installed import claims_of
from tests.integration.engine.certify_world import MithrilCertifyWorld, note_row, verdicts
from tests.integration.engine.engine_world import D, a_world
from tests.variants import first_of

SETTLED = tuple(claim.id for claim in claims_of("mithril") if claim.step is not None)
BUDGET = "3.00"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MithrilCertifyWorld]:
    async with a_world(tmp_path, kind=MithrilCertifyWorld) as made:
        assert isinstance(made, MithrilCertifyWorld)
        yield made


@pytest.mark.slow
async def test_every_claim_is_held_by_a_market_that_keeps_them_all(world: MithrilCertifyWorld) -> None:
    found = verdicts(await world.certified(BUDGET))
    assert found == dict.fromkeys(sorted(SETTLED), ClaimVerdict.HELD)
    assert 0 < world.billed() <= D(BUDGET)
    assert world.rented() == []


@pytest.mark.slow
@pytest.mark.parametrize("claim", first_of(SETTLED))
async def test_a_claim_that_does_not_hold_is_found(world: MithrilCertifyWorld, claim: str) -> None:
    world.break_claims([claim])
    seen = await world.certified(BUDGET)
    note_row("Mithril", claim, seen, world.billed())
    found = verdicts(seen)
    assert found[claim] is ClaimVerdict.BROKEN
    assert ClaimVerdict.BROKEN not in {verdict for name, verdict in found.items() if name != claim}
    assert world.billed() <= D(BUDGET)
    assert world.rented() == []


@pytest.mark.slow
async def test_a_daemon_that_is_killed_at_every_tick_settles_them_all_the_same(world: MithrilCertifyWorld) -> None:
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
