"""Opens the markets that are installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from autopilot.markets.installed import load_plugin
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Plugin, Provider


def connect(name: str, settings: Mapping[str, Any], clock: Clock) -> Provider:
    """Open the market ``name``. Raises ``UserError``: no such market, its SDK is missing, or its settings are wrong."""
    return cast(Plugin, load_plugin(name)).connect(settings, clock)
