"""A market is certified: every claim settled for less than a dollar, each broken one found, nothing left rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from certify_world import CertifyWorld, verdicts
from engine_world import a_world

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
    print(claim, {k: v for k, v in found.items() if v != "held"})
    assert found[claim] is Verdict.BROKEN
    others = {verdict for name, verdict in found.items() if name != claim}
    assert Verdict.BROKEN not in others, found
    assert world.billed() <= 1
    assert world.ours() == []
