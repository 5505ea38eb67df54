"""The wall clock of the daemon's host is wrong after a restart: machines are neither doubled nor forgotten for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from autopilot.clock import SystemClock
from tests.integration.engine.engine_world import QuickClock, World, a_world


class Astray(QuickClock):
    """The market's time, read off a clock that is set wrong by ``offset``."""

    def __init__(self, right: QuickClock, offset: timedelta) -> None:
        self._right = right
        self._offset = offset

    def now(self) -> datetime:
        return self._right.now() + self._offset

    def monotonic(self) -> float:
        return self._right.monotonic()

    def advance(self, seconds: float) -> None:
        self._right.advance(seconds)


STEPS = [
    timedelta(hours=-3),
    timedelta(seconds=-1),
    timedelta(days=-40),
    timedelta(seconds=20),
    timedelta(hours=3),
    timedelta(days=400),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=str)
async def test_a_clock_that_is_wrong_after_a_restart_costs_no_machine(tmp_path: Path, step: timedelta) -> None:
    async with a_world(tmp_path) as world:
        await world.tick()
        world.agents.total_steps = 100_000
        await world.running()
        right = world.clock
        world.clock = Astray(right, step)
        await world.restart()
        await ticks_without_a_double(world, 30)
        # Set right again, which is another step.
        world.clock = right
        await world.restart()
        await ticks_without_a_double(world, 10)
        await world.jobs.cancel("train")
        await ticks_without_a_double(world, 60)
        assert world.ours() == [], await world.story()
        job = await world.job()
        assert job.status.is_final, await world.story()
        assert all(lease.is_over for lease in await world.leases())


async def ticks_without_a_double(world: World, times: int) -> None:
    for _ in range(times):
        await world.tick()
        assert len(world.ours()) <= 1, await world.story()


def test_a_step_while_the_daemon_runs_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr("autopilot.ports.clock.datetime", None)  # reading the wall clock again would fail
    assert timedelta(0) <= clock.now() - before < timedelta(seconds=5)
