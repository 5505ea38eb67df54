"""Daemons and listeners of tests, on markets of their own: one pair for a module, or one for a test that needs it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.listener.listener_world import Remote, a_remote
from tests.integration.service.patient import be_patient


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a module run in one event loop, which is that of the daemon they share."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch.setattr)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote() -> AsyncIterator[Remote]:
    """One for all tests of the module: each finds what those before it have left, and uses names of its own."""
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_remote(Path(name)) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="module")
async def fresh() -> AsyncIterator[Remote]:
    """With nothing in its ledger yet."""
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_remote(Path(name)) as made:
            yield made
