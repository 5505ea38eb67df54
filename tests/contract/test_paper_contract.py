"""Paper keeps the provider contract, and sends the real market nothing but reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.offer import CapacityType
from tests.contract.harness import Harness, QuickClock
from tests.contract.paper_harness import paper_harness
from tests.contract.provider_contract import ProviderContract

READS = {"search", "user"}
"""Calls that rent, change or end nothing, and do not even look at what is rented."""


class PaperContract(ProviderContract):
    capacity_type: CapacityType

    @pytest.fixture
    async def harness(self, tmp_path: Path, clock: QuickClock) -> AsyncIterator[Harness]:
        """After every test of the contract, the calls that the real market counted."""
        async with paper_harness(tmp_path, clock, self.capacity_type) as made:
            yield made
            called = await made.market.control("requests")
            assert {family for family, count in called.items() if count} <= READS
            assert (await made.market.control("instances"))["instances"] == []


class TestPaperSpot(PaperContract):
    capacity_type = CapacityType.SPOT


class TestPaperOnDemand(PaperContract):
    capacity_type = CapacityType.ON_DEMAND
