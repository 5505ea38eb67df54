"""Every test of this folder sees an empty home and none of the caller's variables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICE_VARIABLES = ("CONFIGURATION_DIRECTORY", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory; the system's configuration directory is ``etc`` beneath it.

    Its path is short, as a real one's is: the control socket's lies beneath it.
    """
    for name in list(os.environ):
        if name.startswith(("AUTOPILOT_", "XDG_")) or name in SERVICE_VARIABLES:
            monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory(prefix="home-") as directory:
        monkeypatch.setenv("HOME", directory)
        monkeypatch.setenv("CONFIGURATION_DIRECTORY", f"{directory}/etc")
        yield Path(directory)
