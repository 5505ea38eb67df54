"""A market whose adapter would wait for ever: the tick goes on, and so does what does not need that market."""

from __future__ import annotations

import time

import pytest

from autopilot.engine import observe
from tests.integration.engine.engine_world import World


async def test_a_market_that_does_not_answer_is_unknown_and_does_not_hold_the_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running()
    monkeypatch.setattr(observe, "READ_WAIT_REAL_S", 0.3)
    await world.fault("list", "effect_then_timeout", times=None, hang_s=1.5)
    began = time.monotonic()
    await world.tick()
    assert time.monotonic() - began < 3
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
