"""Mithril keeps the provider contract, with lists on one page and with lists of many.

Each runs behind the fence of a shared ledger, which adds nothing and hides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.mithril_harness import mithril_harness
from tests.contract.provider_contract import ProviderContract


class TestMithril(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with mithril_harness(tmp_path, clock) as made:
            yield fenced(made)


class TestMithrilInSmallPages(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with mithril_harness(tmp_path, clock, mithril_page_rows=1, mithril_list_lag_s=120.0) as made:
            yield fenced(made)
