"""Daemons of tests, each on a market of its own: one for a module, and one for each test that needs a fresh ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from tests.integration.service.patient import be_patient
from tests.integration.service.service_world import Served, a_served


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a module run in one event loop, which is that of the service they share."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch.setattr)
        yield


@pytest.fixture(autouse=True)
def fresh_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was used before keeps the settings that it had then, and its lines go past the test."""
    for module in ("app", "problems"):
        monkeypatch.setattr(f"autopilot.api.{module}.log", structlog.get_logger())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    """One for all tests of the module: each finds what those before it have left, and uses names of its own."""
    async with a_served() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    """With ``@pytest.mark.parametrize("served", [{…}], indirect=True)``: settings beyond those of a test's daemon."""
    async with a_served(**getattr(request, "param", {})) as made:
        yield made
