"""RunPod keeps the provider contract: spot while it lasts, on demand beside it, and on demand by REST alone.

Each runs behind the fence of a shared ledger, which adds nothing and hides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.offer import CapacityType
from tests.contract.harness import Harness, QuickClock, fenced
from tests.contract.provider_contract import ProviderContract
from tests.contract.runpod_harness import runpod_harness


class TestRunpodSpot(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.SPOT) as made:
            yield fenced(made)


class TestRunpodOnDemand(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.ON_DEMAND) as made:
            yield fenced(made)


class TestRunpodByRestAlone(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.ON_DEMAND, mode="graphql_gone") as made:
            yield fenced(made)


async def test_spot_that_is_found_later_is_seen(tmp_path: Path) -> None:
    async with runpod_harness(tmp_path, QuickClock(), CapacityType.SPOT) as made:
        await made.provider.close()
        made.provider = made.connect()  # which has listed nothing yet
        provider = fenced(made).provider
        assert (provider.capabilities.spot, provider.capabilities.may_have_spot) == (False, True)
        await provider.instances()
        assert provider.capabilities.spot
