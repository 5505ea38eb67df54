"""Nebius's SDK is an extra: users of other markets do not pay for it, and an error reports if it is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTED = """
import sys
import autopilot.providers.nebius, autopilot.providers.registry, autopilot_lab.sandbox.server
from autopilot.markets.installed import available
assert "nebius" in available()
print({name.partition(".")[0] for name in sys.modules} & {"nebius", "grpc", "google", "jwt"})
"""
WITHOUT_SDK = """
import sys
sys.modules["nebius"] = None  # what an import of a missing package meets
from autopilot.clock import SystemClock
from autopilot.domain.errors import UserError
from autopilot.providers.nebius import plugin
try:
    plugin.connect({"api_key": "k", "projects": {"eu-north1": "project-1"}}, SystemClock())
except UserError as error:
    print(error)
"""


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_neither_the_plug_in_nor_the_sandbox_imports_the_sdk() -> None:
    assert python(IMPORTED) == "set()\n"


def test_a_missing_sdk_names_the_extra() -> None:
    said = python(WITHOUT_SDK)
    assert "the Nebius SDK is not installed" in said
    assert "gpu-autopilot[nebius]" in said
