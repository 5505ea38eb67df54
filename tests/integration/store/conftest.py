from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.store.database import SqlStore, open_store


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database without rows, to be copied."""
    path = tmp_path_factory.mktemp("empty") / "ledger.db"

    async def make() -> None:
        await (await open_store(str(path))).close()

    asyncio.run(make())
    return path


@pytest.fixture
def ledger_path(empty_ledger: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(empty_ledger, tmp_path / "ledger.db"))


@pytest.fixture
async def store(ledger_path: Path) -> AsyncIterator[SqlStore]:
    opened = await open_store(str(ledger_path))
    yield opened
    await opened.close()
