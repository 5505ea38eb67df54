"""An engine in its world, after its first tick: the market is known and nothing is rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.engine import engine, mailbox, observe, past_prices
from tests.integration.engine.engine_world import World, a_world
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick waits for its calls and for markets as long as it takes: on a slow machine too it sees what they bring."""
    monkeypatch.setattr(engine, "CALLS_WAIT_REAL_S", PATIENCE_S)
    monkeypatch.setattr(observe, "READ_WAIT_REAL_S", PATIENCE_S)
    monkeypatch.setattr(observe, "OFFERS_WAIT_REAL_S", PATIENCE_S)
    monkeypatch.setattr(mailbox, "SEARCH_WAIT_REAL_S", PATIENCE_S)
    monkeypatch.setattr(past_prices, "WAIT_REAL_S", PATIENCE_S)


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
