"""A recorded session, taken again: the same decisions, byte by byte; live and replay are one policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.service.recording import FileRecorder
from autopilot_lab.backtest.replay import replay
from tests.integration.engine.engine_world import JOB, World

WITH_DEADLINE = JOB.replace('estimate = "10m"', 'estimate = "10m"\n[deadline]\nwithin = "1h"')


@pytest.mark.slow
async def test_a_recorded_session_replays_to_the_same_decisions(world: World, tmp_path: Path) -> None:
    recording = tmp_path / "session.gz"
    world.recorder = recorder = FileRecorder(recording)
    await world.restart()
    await world.running(WITH_DEADLINE)
    lease = await world.until_checkpoint()
    world.rival(lease, "1.05")
    await world.tick(12)
    world.rival(lease, "5")
    await world.tick(12)
    await world.restart()
    await world.until(lambda job: job.status.is_final, "the job is over", most=400)
    recorder.close()
    done = replay(recording)
    assert done.difference is None, done.difference
    assert done.decisions > 30
