from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.markets.installed import available
from autopilot.providers.runpod import plugin
from autopilot.providers.runpod.config import BASE_URL, parse_settings

WITHOUT_SDK = """
import sys
sys.modules["runpod"] = None  # what an import of a missing package meets
from autopilot.domain.errors import UserError
from autopilot.clock import SystemClock
from autopilot.providers.runpod import plugin
try:
    plugin.connect({"api_key": "k"}, SystemClock())
except UserError as error:
    print(error)
"""
CONNECTED = """
import sys
from autopilot.clock import SystemClock
from autopilot.providers.runpod import plugin
plugin.connect({"api_key": "k"}, SystemClock())
print({"runpod", "requests"} & set(sys.modules))
"""
IMPORTED_LATE = """
import logging, os
from autopilot.providers.reading import NoReply
from autopilot.providers.runpod.sdk import Sdk
try:
    Sdk("k", "http://127.0.0.1:9").gpu_types()
except NoReply as error:
    print(error)
print(logging.getLogger().handlers, "RUNPOD_API_BASE_URL" in os.environ)
print([logging.getLogger(name).level for name in (None, "urllib3", "paramiko", "uvicorn")])
"""


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_neither_importing_nor_connecting_imports_the_sdk() -> None:
    program = "import sys, autopilot.providers.runpod; print({'runpod', 'requests', 'pydantic'} & set(sys.modules))"
    assert python(program) == "set()\n"
    assert python(CONNECTED) == "set()\n"


@pytest.mark.slow
def test_importing_the_sdk_leaves_logging_and_the_environment_alone() -> None:
    assert python(IMPORTED_LATE) == "no answer that the SDK can read: ConnectionError\n[] False\n[30, 0, 0, 0]\n"


@pytest.mark.slow
def test_a_missing_sdk_names_the_extra() -> None:
    assert "gpu-autopilot[runpod]" in python(WITHOUT_SDK)


async def test_a_market_that_was_not_asked_yet_offers_no_spot() -> None:
    provider = plugin.connect({"api_key": "k", "base_url": "http://127.0.0.1:9"}, ManualClock())
    assert provider.name == "runpod"
    assert provider.capabilities.on_demand
    assert not provider.capabilities.spot
    await provider.close()


def test_the_market_is_found_by_name() -> None:
    assert "runpod" in available()


def test_a_missing_key_says_where_to_put_it() -> None:
    with pytest.raises(UserError, match=r"api_key_file"):
        plugin.connect({}, ManualClock())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"api_key": "secret-\x01-key"}, "api_key"),
        ({"api_key": "secret key"}, "api_key"),
        ({"api_key": "k", "base_ur": "x"}, "base_ur"),
        ({"api_key": "k", "base_url": "api.runpod.io"}, "base_url"),
        ({"api_key": "k", "timeout_s": 0}, "timeout_s"),
        ({"api_key": "k", "team_id": "a\nb"}, "team_id"),
        ({"api_key": "k", "container_disk_gb": 1}, "container_disk_gb"),
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
