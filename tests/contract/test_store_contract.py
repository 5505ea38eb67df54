"""One contract, three stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import attrgetter
from pathlib import Path
from typing import get_type_hints

import pytest

from autopilot.ports.store import Store, UnitOfWork
from autopilot.store.database import open_store
from autopilot.store.statements import Statements
from autopilot.store.unit_of_work import SqlUnitOfWork
from autopilot_lab.memory_store.access import Access
from autopilot_lab.memory_store.store import MemoryStore
from autopilot_lab.memory_store.tables import MemoryTables
from autopilot_lab.memory_store.unit_of_work import MemoryUnitOfWork
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


def _public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


REPOSITORIES = {name: get_type_hints(getattr(UnitOfWork, name).fget)["return"] for name in _public(UnitOfWork)}
ASKED = {f"{name}.{method}" for name, repository in REPOSITORIES.items() for method in _public(repository)}


def test_every_method_of_the_port_is_there_and_has_a_case() -> None:
    for offered in (
        SqlUnitOfWork(Statements(None)),  # type: ignore[arg-type]  # it is asked for its names alone
        MemoryUnitOfWork(Access(MemoryTables({}), is_read_only=True)),
    ):
        assert {name for name in ASKED if not callable(attrgetter(name)(offered))} == set()
    cases = "".join(path.read_text() for path in Path(__file__).parent.glob("store_*.py"))
    assert {name for name in ASKED if f".{name}(" not in cases} == set()
