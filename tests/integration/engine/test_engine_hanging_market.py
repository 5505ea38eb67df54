"""A market whose adapter would wait for ever: the tick goes on, and so does what does not need that market."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.engine import observe
from tests.integration.engine.engine_world import World, a_world

FOR_EVER_S = 300.0
"""The longest that a market may be waited for. A tick that does is stopped by the test's own limit."""


class WorldOverHttp(World):
    over_http = True


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, kind=WorldOverHttp) as made:
        made.timeout_s = FOR_EVER_S
        await made.restart()
        await made.tick()
        yield made


async def test_a_market_that_does_not_answer_is_unknown_and_does_not_hold_the_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running()
    monkeypatch.setattr(observe, "READ_WAIT_REAL_S", 0.3)
    await world.fault("list", "effect_then_timeout", times=None, hang_s=FOR_EVER_S)
    await world.tick()
    (watch,) = world.engine.watches.values()
    assert not watch.last.known
    assert "0.3 s" in watch.last.reason
    renewed = (await world.lease(lease.id)).permit.seq
    await world.tick(3, apart_s=40)
    assert (await world.lease(lease.id)).permit.seq > renewed, "the machine's permit is not renewed meanwhile"
    await world.clear_faults()
    monkeypatch.setattr(observe, "READ_WAIT_REAL_S", 30.0)
    await world.tick(2)
    assert watch.last.known
    assert world.instance(lease).destroyed_at is None
