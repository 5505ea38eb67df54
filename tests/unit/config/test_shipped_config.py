"""config/autopilot.toml and docs/reference/settings.md say what the code does, key by key."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from autopilot.config.owners import OwnerSettings
from autopilot.config.paths import packaged_config
from autopilot.config.proxy import ProxyOthersSettings, ProxySettings, ProxyUserSettings
from autopilot.config.settings import ProviderSettings, Settings, load_settings
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.slurm.config import SlurmSettings
from autopilot.providers.ssh.config import SshSettings
from autopilot.providers.vastai.config import VastaiSettings

MARKETS: dict[str, type[BaseModel]] = {
    "vastai": VastaiSettings,
    "runpod": RunpodSettings,
    "mithril": MithrilSettings,
    "nebius": NebiusSettings,
    "ssh": SshSettings,
    "slurm": SlurmSettings,
}
TABLES: dict[str, type[BaseModel]] = {
    "owners.alice": OwnerSettings,
    "http.proxy.users.alice": ProxyUserSettings,
    "http.proxy.others": ProxyOthersSettings,
}
ROOT = Path(__file__).parents[3]
SHIPPED = packaged_config().read_text()

_KEY = re.compile(r"^#(\w+) =(?: (.+))?$", re.MULTILINE)
_TABLE = re.compile(r"^#?(\[[\w.]+\])$", re.MULTILINE)


def documented() -> dict[str, dict[str, Any]]:
    """Section → key → its default as documented; None if the file shows no value."""
    found: dict[str, dict[str, Any]] = {"": {}}
    section = found[""]
    for line in SHIPPED.splitlines():
        if table := _TABLE.match(line):
            section = found.setdefault(table[1].strip("[]"), {})
        elif key := _KEY.match(line):
            section[key[1]] = tomllib.loads(f"v = {key[2]}", parse_float=Decimal)["v"] if key[2] else None
    return found


def defaults(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def test_every_setting_is_documented_and_no_other() -> None:
    sections = {
        name: field for name, field in Settings.model_fields.items() if name not in ("state_dir", "owners", "providers")
    }
    expected = {"": {"state_dir"}} | {name: set(defaults(getattr(Settings(), name))) for name in sections}
    expected["http"] -= {"proxy"}
    expected["http.proxy"] = set(ProxySettings.model_fields) - {"users", "others"}
    for table, model in TABLES.items():
        expected[table] = set(model.model_fields)
    for market, own in MARKETS.items():
        expected[f"providers.{market}"] = set(ProviderSettings.model_fields) | set(own.model_fields) - {"api_key"}
    assert {section: set(keys) for section, keys in documented().items()} == expected


def test_every_documented_default_is_the_code_s() -> None:
    settings = Settings()
    for section, keys in documented().items():
        if section.startswith("providers."):
            continue
        if section in TABLES:
            said = {key: value for key, value in keys.items() if value is not None}
            assert TABLES[section](**said) == TABLES[section]()
            continue
        if section == "":
            assert Settings(**keys).state_dir == settings.state_dir
            continue
        model = settings.http.proxy if section == "http.proxy" else getattr(settings, section)
        assert defaults(type(model)(**keys)) == defaults(model), section


@pytest.mark.parametrize("market", MARKETS)
def test_every_documented_default_of_a_market_is_the_code_s(market: str) -> None:
    keys, model = documented()[f"providers.{market}"], MARKETS[market]
    own = {key: value for key, value in keys.items() if key in model.model_fields and value is not None}
    assert model(**own) == model()
    common = {key: keys[key] for key in ProviderSettings.model_fields}
    assert ProviderSettings(**common) == ProviderSettings()


@pytest.mark.parametrize("market", MARKETS)
def test_a_market_s_key_without_a_value_has_none_in_the_code(market: str) -> None:
    keys, model = documented()[f"providers.{market}"], MARKETS[market]
    shown = {key for key, value in keys.items() if value is not None}
    own = model()
    assert {key for key in set(keys) & set(model.model_fields) - shown if getattr(own, key)} <= {"base_url"}


def test_the_file_as_shipped_changes_nothing(home: Path) -> None:
    path = home / "autopilot.toml"
    path.write_text(SHIPPED)
    assert load_settings(path) == load_settings()


def test_uncommented_it_is_valid(home: Path) -> None:
    path = home / "autopilot.toml"
    set_keys = re.sub(r"^#(\w+ = .+)$", r"\1", SHIPPED, flags=re.MULTILINE)
    path.write_text(re.sub(r"^#(\[.+\])$", r"\1", set_keys, flags=re.MULTILINE))
    settings = load_settings(path)
    assert settings.limits == Settings().limits
    assert list(settings.markets) == list(MARKETS)
    for market, model in MARKETS.items():
        assert model(**settings.markets[market].options) == model()


def test_the_reference_shows_the_file() -> None:
    reference = (ROOT / "docs/reference/settings.md").read_text()
    assert f"```toml\n{SHIPPED}```" in reference
