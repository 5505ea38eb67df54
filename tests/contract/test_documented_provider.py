"""docs/how-to/write-a-provider.md: its example is installed, found and held to the contract; its tables are whole."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.clock import ManualClock
from autopilot.config.settings import Settings
from autopilot.domain.errors import UserError
from autopilot.domain.money import accrue
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider, RefusalCode
from autopilot.providers import registry
from autopilot.service.wiring import connect_markets
from tests.contract.harness import Harness, QuickClock
from tests.contract.provider_contract import ProviderContract

GUIDE = (Path(__file__).parents[2] / "docs/how-to/write-a-provider.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
EXAMPLE = next(text for language, text in BLOCKS if language == "python")
DECLARATION, SETTINGS = (tomllib.loads(text) for language, text in BLOCKS if language == "toml")
ENTRY_POINTS: dict[str, str] = DECLARATION["project"]["entry-points"][registry.GROUP]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as its reader would install it: a module and an entry point on the path."""
    ((name, target),) = ENTRY_POINTS.items()
    module = target.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(EXAMPLE)
    about = tmp_path / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(module, None)


class RackHarness:
    query = OfferQuery((("RTX 4090", 1),), Decimal(20), Decimal(40), verified_only=True, datacenter_only=False)
    capacity_type = CapacityType.ON_DEMAND
    image = "some/image:1"
    onstart = "true"
    has_wire = False

    def __init__(self, clock: QuickClock) -> None:
        self._clock = clock
        self._given: set[str] = set()
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        return registry.connect("rack", SETTINGS["providers"]["rack"], self._clock)

    async def make_offer_available(self) -> Offer:
        offer = next(o for o in await self.provider.offers(self.query) if o.machine_id not in self._given)
        self._given.add(offer.machine_id)
        return offer

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def billed(self, instance_id: str) -> Decimal:
        rentals: dict[str, Any] = registry.available()["rack"].load().rentals
        stretches = rentals[instance_id].stretches
        return accrue(Decimal("0.40"), sum((end - start for start, end in stretches), timedelta(0)))

    async def outbid(self, instance_id: str) -> Decimal:
        raise NotImplementedError("a rack has no bids")

    def lost_create_answers(self) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError("a rack has no wire")

    def garbled_lists(self) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError("a rack has no wire")


@pytest.mark.usefixtures("installed")
class TestRack(ProviderContract):
    @pytest.fixture
    async def harness(self, installed: None, clock: QuickClock) -> AsyncIterator[Harness]:
        made = RackHarness(clock)
        yield made
        await made.provider.close()


@pytest.mark.usefixtures("installed")
async def test_its_section_in_the_settings_turns_it_on() -> None:
    providers = connect_markets(Settings(**SETTINGS), ManualClock())
    assert [provider.name for provider in providers.values()] == ["rack"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("keys", [{}, {"price": "$1", "colour": "red"}, {"price": "cheap"}])
def test_wrong_settings_are_one_clear_error(keys: dict[str, str]) -> None:
    with pytest.raises(UserError):
        registry.connect("rack", keys, ManualClock())


def test_every_capability_and_refusal_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)
    assert rows == [field.name for field in fields(Capabilities)] + [code.name for code in RefusalCode]
