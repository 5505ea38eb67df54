"""docs/how-to/write-a-provider.md: its example is installed, found and held to the contract; its tables are whole."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.api.certify import CertifyService
from autopilot.api.confirmations import PlanBook
from autopilot.api.key_hint import replace_keys
from autopilot.certify.claim import CertifyFacts
from autopilot.clock import ManualClock
from autopilot.config.settings import ProviderSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.domain.money import accrue
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.params import Params
from autopilot.engine.certification import CertifyRules
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.ids import UlidIds
from autopilot.markets.facts import MarketFacts
from autopilot.markets.installed import GROUP, available, every_market, facts_of
from autopilot.policy.guard import Limits
from autopilot.ports.provider import Provider, RefusalCode
from autopilot.providers import registry
from autopilot.service.wiring import AgentBootstrap, connect_markets
from autopilot.web import words
from autopilot.words.certificates import tell_command
from autopilot_lab.memory_store.store import MemoryStore
from tests.contract.harness import Harness, QuickClock
from tests.contract.provider_contract import ProviderContract
from tests.memory_blobs import MemoryBlobs
from tests.patience import PATIENCE_S

GUIDE = (Path(__file__).parents[2] / "docs/how-to/write-a-provider.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
EXAMPLE = next(text for language, text in BLOCKS if language == "python")
DECLARATION, SETTINGS = (tomllib.loads(text) for language, text in BLOCKS if language == "toml")
ENTRY_POINTS: dict[str, str] = DECLARATION["project"]["entry-points"][GROUP]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as its reader would install it: a module and an entry point on the path."""
    ((name, target),) = ENTRY_POINTS.items()
    module = target.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(EXAMPLE)
    about = tmp_path / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget_markets()
    yield
    sys.modules.pop(module, None)
    forget_markets()


def forget_markets() -> None:
    """A process finds its markets once; here one comes and goes."""
    available.cache_clear()
    facts_of.cache_clear()


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
        rentals: dict[str, Any] = available()["rack"].load().rentals
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
    facts = [field.name for each in (MarketFacts, CertifyFacts) for field in fields(each)]
    assert rows == facts + [field.name for field in fields(Capabilities)] + [code.name for code in RefusalCode]


@pytest.fixture
def home() -> Iterator[Path]:
    """Of a user; its path is short, for a socket lies below it."""
    with tempfile.TemporaryDirectory(prefix="home-") as directory:
        yield Path(directory)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_init_takes_its_key_and_doctor_opens_it_with_that(tmp_path: Path, home: Path) -> None:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "COLUMNS": "300"}

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        asked = [sys.executable, "-m", "autopilot.cli.main", *words]
        return subprocess.run(asked, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    key = home / "key"
    key.write_text("rack-key\n")
    key.chmod(0o600)
    assert "--rack-key-file PATH: The same for The Rack." in command("init", "--help").stdout
    kept = command("init", "--rack-key-file", str(key))
    stored = home / ".config/autopilot/credentials/rack_api_key"
    assert kept.returncode == 0, kept.stderr
    assert (stored.read_text(), stat.S_IMODE(stored.stat().st_mode)) == ("rack-key\n", 0o600)
    with (home / ".config/autopilot/autopilot.toml").open("a") as config:
        config.write('[providers.rack]\nprice = "$0.40"\n')
    told = " ".join(command("doctor").stdout.split())
    assert "ok rack on-demand (no spot); credit $1,000.00; 0 instances on the account" in told, told
    assert 'autopilot certify rack --budget "$0.50"' in told


@pytest.mark.usefixtures("installed")
def test_what_goes_by_its_name_is_what_it_states() -> None:
    assert words.market("rack") == "The Rack"
    assert replace_keys(["rack"]).startswith("store a valid key with: autopilot init --force --rack-key-file FILE:")
    assert list(every_market())[-1] == "rack"
    assert tell_command("rack") == 'autopilot certify rack --budget "$0.50"'
    real = {None: True, "https://api.rack.example": True, "http://127.0.0.1:9": False}
    assert {url: ProviderSettings(base_url=url).is_real for url in real} == real


@pytest.mark.usefixtures("installed")
async def test_its_claim_is_settled_by_a_certification() -> None:
    clock, store, blobs = QuickClock(), MemoryStore(), MemoryBlobs()
    limits = Limits(Decimal(50), Decimal(500), Decimal(10), 10, launches_per_job_10min=3, launches_per_hour=20)
    rules = CertifyRules("0.1", frozenset({"rack"}), frozenset({"rack"}))
    engine = Engine(
        EngineConfig("install1", limits, Params(), certify=rules),
        {"rack": RackHarness(clock).provider},
        store,
        blobs,
        await AgentBootstrap.prepare(blobs),
        AgentUnpacker(),
        clock,
        UlidIds(clock),
    )
    ids = UlidIds(clock)
    service = CertifyService(engine, store, clock, ids, lambda: None, PlanBook(clock, ids))
    await engine.tick()
    await service.begin("rack", Decimal("0.50"), (), owner=1000, token=None)
    for _ in range(8):
        clock.advance(15)
        await engine.tick()
        await engine.calls.settle_for(PATIENCE_S)
    (claim,) = (await service.report("rack"))["claims"]
    assert (claim["id"], claim["verdict"], claim["matters"]) == ("list-shows-label", "held", True)


def test_a_plug_in_that_cannot_be_used_is_named_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "autopilot_old-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: autopilot_old\nVersion: 1.0\n")
    points = "\n".join(f"{name} = autopilot_{name}:plugin" for name in ("old", "lost", "wrong"))
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{points}\n")
    wrong = 'from autopilot.markets.facts import MarketFacts\nMarketFacts("Wrong", key_option="--day")\n'
    (tmp_path / "autopilot_wrong.py").write_text(wrong)
    (tmp_path / "autopilot_old.py").write_text('class Plugin:\n    name = "old"\n\n\nplugin = Plugin()\n')
    monkeypatch.syspath_prepend(tmp_path)
    forget_markets()
    try:
        assert {"old", "lost", "wrong"} <= set(available())
        assert not {"old", "lost", "wrong"} & set(every_market())
        assert words.market("old") == "old"
        with pytest.raises(UserError, match=r"autopilot_old:plugin\) states no facts"):
            registry.connect("old", {}, ManualClock())
        with pytest.raises(UserError, match=r"autopilot_lost:plugin\) cannot be imported: No module"):
            registry.connect("lost", {}, ManualClock())
        with pytest.raises(UserError, match="key_option must be like --rack-key-file, and is --day"):
            registry.connect("wrong", {}, ManualClock())
    finally:
        for name in ("autopilot_old", "autopilot_wrong"):
            sys.modules.pop(name, None)
        forget_markets()
