"""The fence of a shared ledger keeps the provider contract: it adds nothing, and hides nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.offer import CapacityType
from autopilot.lab.memory_store.store import MemoryStore
from autopilot.ports.provider import Provider
from autopilot.service.leadership import FencedProvider
from tests.contract.harness import Harness, QuickClock
from tests.contract.mithril_harness import mithril_harness
from tests.contract.nebius_harness import nebius_harness
from tests.contract.provider_contract import ProviderContract
from tests.contract.runpod_harness import runpod_harness
from tests.contract.vastai_harness import vastai_harness


def fenced(provider: Provider) -> Provider:
    return FencedProvider(provider, MemoryStore(), hold_creates_real_s=0)


class TestFencedVastai(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with vastai_harness(tmp_path, clock, CapacityType.SPOT) as made:
            made.provider = fenced(made.provider)
            yield made


class TestFencedRunpod(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with runpod_harness(tmp_path, clock, CapacityType.SPOT) as made:
            made.provider = fenced(made.provider)
            yield made


class TestFencedNebius(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with nebius_harness(tmp_path, clock) as made:
            made.provider = fenced(made.provider)
            yield made


class TestFencedMithril(ProviderContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        async with mithril_harness(tmp_path, clock) as made:
            made.provider = fenced(made.provider)
            yield made


async def test_spot_that_is_found_later_is_seen(tmp_path: Path, clock: QuickClock) -> None:
    async with runpod_harness(tmp_path, clock, CapacityType.SPOT) as made:
        provider = fenced(made.connect())
        assert (provider.capabilities.spot, provider.capabilities.may_have_spot) == (False, True)
        await provider.instances()
        assert provider.capabilities.spot
        await provider.close()


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()
