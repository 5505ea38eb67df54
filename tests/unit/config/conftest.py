"""Every test of this folder sees an empty home and none of the caller's variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SERVICE_VARIABLES = ("CONFIGURATION_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory; the system's configuration directory is ``etc`` beneath it."""
    for name in list(os.environ):
        if name.startswith(("AUTOPILOT_", "XDG_")) or name in SERVICE_VARIABLES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", str(tmp_path / "etc"))
    return tmp_path
