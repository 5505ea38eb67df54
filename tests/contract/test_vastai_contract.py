"""vast.ai keeps the provider contract, interruptible and on demand: the vendor's SDK against the sandbox.

Each runs behind the fence of a shared ledger, which adds nothing and hides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.offer import CapacityType
from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.provider_contract import ProviderContract
from tests.contract.vastai_harness import vastai_harness


class TestVastaiSpot(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with vastai_harness(tmp_path, clock, CapacityType.SPOT) as made:
            yield fenced(made)


class TestVastaiOnDemand(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with vastai_harness(tmp_path, clock, CapacityType.ON_DEMAND) as made:
            yield fenced(made)
