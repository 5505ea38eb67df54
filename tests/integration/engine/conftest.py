"""An engine in its world, after its first tick: the market is known and nothing is rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.engine.engine_world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        await made.tick()
        yield made


@pytest.fixture
async def world_on_disk(tmp_path: Path) -> AsyncIterator[World]:
    """The same with its ledger in ``ledger.db``."""
    async with a_world(tmp_path, ledger_url=str(tmp_path / "ledger.db")) as made:
        await made.tick()
        yield made
