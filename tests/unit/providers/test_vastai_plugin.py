from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.markets.installed import available
from autopilot.providers import registry
from autopilot.providers.vastai import plugin
from autopilot.providers.vastai.config import BASE_URL, parse_settings

WITHOUT_SDK = """
import sys
sys.modules["vastai"] = None  # what an import of a missing package meets
from autopilot.domain.errors import UserError
from autopilot.clock import SystemClock
from autopilot.providers.vastai import plugin
try:
    plugin.connect({"api_key": "k"}, SystemClock())
except UserError as error:
    print(error)
"""


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_importing_the_plugin_imports_no_sdk() -> None:
    program = "import sys, autopilot.providers.vastai; print({'vastai', 'requests', 'pydantic'} & set(sys.modules))"
    assert python(program) == "set()\n"


@pytest.mark.slow
def test_a_missing_sdk_names_the_extra() -> None:
    assert "gpu-autopilot[vast]" in python(WITHOUT_SDK)


async def test_the_market_is_found_by_name() -> None:
    assert "vastai" in available()
    provider = registry.connect("vastai", {"api_key": "k", "base_url": "http://127.0.0.1:9"}, ManualClock())
    assert provider.name == "vastai"
    assert provider.capabilities.bills_at_bid
    await provider.close()


def test_an_unknown_market_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'vast'.*vastai"):
        registry.connect("vast", {}, ManualClock())


def test_a_missing_key_says_where_to_put_it() -> None:
    with pytest.raises(UserError, match=r"api_key_file"):
        plugin.connect({}, ManualClock())
    with pytest.raises(UserError, match=r"api_key_file"):
        plugin.connect({"api_key": " \n"}, ManualClock())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"api_key": "secret-\x01-key"}, "api_key"),
        ({"api_key": "secret key"}, "api_key"),
        ({"api_key": "k", "base_ur": "x"}, "base_ur"),
        ({"api_key": "k", "base_url": "console.vast.ai"}, "base_url"),
        ({"api_key": "k", "timeout_s": 0}, "timeout_s"),
        ({"api_key": "k", "search_rows_per_day": 20_001}, "search_rows_per_day"),
        ({"api_key": "k", "min_reliability": "2"}, "min_reliability"),
    ],
)
def test_wrong_settings_are_named_without_their_values(settings: dict[str, object], named: str) -> None:
    with pytest.raises(UserError, match=named) as raised:
        parse_settings(settings)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_defaults() -> None:
    settings = parse_settings({"api_key": " k\n", "base_url": "http://127.0.0.1:1/"})
    assert settings.api_key.get_secret_value() == "k"
    assert settings.base_url == "http://127.0.0.1:1"
    assert parse_settings({"api_key": "k"}).base_url == BASE_URL
    assert "k" not in repr(settings.api_key)
