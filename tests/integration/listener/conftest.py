"""A daemon and its listener for each test, on a market of their own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.listener.listener_world import Remote, a_remote


@pytest.fixture
async def remote() -> AsyncIterator[Remote]:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with a_remote(Path(name)) as made:
            yield made
