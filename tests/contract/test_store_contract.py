"""One contract, three stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.ports.store import Store, UnitOfWork
from autopilot.store.database import open_store
from autopilot.store.memory.store import MemoryStore
from autopilot.store.memory.unit_of_work import MemoryUnitOfWork
from autopilot.store.unit_of_work import SqlUnitOfWork
from tests.contract.store_contract import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        opened = await open_store(str(tmp_path / "ledger.db"))
        yield opened
        await opened.close()


class TestPostgres(StoreContract):
    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        opened = await open_store(postgres_url)
        yield opened
        await opened.close()


class TestMemory(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        opened = MemoryStore()
        yield opened
        await opened.close()


ASKED = {name for name in vars(UnitOfWork) if not name.startswith("_")}


def test_every_method_of_the_port_is_there_and_has_a_case() -> None:
    assert set(dir(SqlUnitOfWork)) >= ASKED
    assert set(dir(MemoryUnitOfWork)) >= ASKED
    cases = "".join(path.read_text() for path in Path(__file__).parent.glob("store_*.py"))
    assert {name for name in ASKED if f".{name}(" not in cases} == set()
