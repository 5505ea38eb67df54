"""Finds the markets that are installed: entry points in the group ``autopilot.providers``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Plugin, Provider

GROUP = "autopilot.providers"


def available() -> dict[str, EntryPoint]:
    """The installed markets by name; none of them is imported."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def connect(name: str, settings: Mapping[str, Any], clock: Clock) -> Provider:
    """Open the market ``name``. Raises ``UserError``: no such market, its SDK is missing, or its settings are wrong."""
    points = available()
    if name not in points:
        known = ", ".join(points) or "none is installed"
        raise UserError(f"no market is called {name!r}", hint=f"known markets: {known}")
    return cast(Plugin, points[name].load()).connect(settings, clock)
