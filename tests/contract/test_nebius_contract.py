"""Nebius keeps the provider contract, with lists on one page and with lists of many.

Each runs behind the fence of a shared ledger, which adds nothing and hides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.nebius_harness import nebius_harness
from tests.contract.provider_contract import ProviderContract


class TestNebius(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with nebius_harness(tmp_path, clock) as made:
            yield fenced(made)


@pytest.mark.slow
class TestNebiusInSmallPages(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with nebius_harness(tmp_path, clock, nebius_page_rows=1) as made:
            yield fenced(made)
