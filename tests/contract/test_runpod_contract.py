"""RunPod keeps the provider contract: spot while it lasts, on demand beside it, and on demand by REST alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.offer import CapacityType
from tests.contract.harness import Harness, QuickClock
from tests.contract.provider_contract import ProviderContract
from tests.contract.runpod_harness import runpod_harness


class TestRunpodSpot(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.SPOT) as made:
            yield made


class TestRunpodOnDemand(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.ON_DEMAND) as made:
            yield made


class TestRunpodByRestAlone(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.ON_DEMAND, mode="graphql_gone") as made:
            yield made
