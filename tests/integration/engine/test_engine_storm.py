"""Ten jobs in a storm: each is in time, the books agree with the bill, and no bid that lost is sent again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.engine.engine_world import D, a_world
from tests.integration.engine.storm import Storm, check, hosts


async def weather(root: Path, seed: int) -> None:
    async with a_world(root, kind=Storm, seed=seed, machines=hosts(seed), credit=D(500)) as storm:
        assert isinstance(storm, Storm)
        storm.brew(seed)
        await storm.tick()
        await storm.set_in()
        await storm.submit_all()
        await storm.rage()
        await check(storm)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 12))
async def test_ten_jobs_come_through_any_storm(tmp_path: Path, seed: int) -> None:
    await weather(tmp_path, seed)
