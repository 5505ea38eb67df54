"""Finds the markets that are installed: entry points in the group ``autopilot.providers``, and what their plug-ins
state of themselves.

A plug-in's module is imported by its entry point's text, and must be cheap: commands ask for facts at their start.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from autopilot.certify.claim import MarketClaim
from autopilot.domain.errors import UserError
from autopilot.markets.facts import MarketFacts

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "autopilot.providers"


@cache
def available() -> Mapping[str, EntryPoint]:
    """The installed markets by name; none of them is imported."""
    from importlib.metadata import entry_points  # most commands name no market, and it takes 30 ms

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def load_plugin(name: str) -> Any:
    """The plug-in of the market ``name``. Raises ``UserError``: no such market, or its plug-in cannot be used."""
    points = available()
    if name not in points:
        known = ", ".join(points) or "none is installed"
        raise UserError(f"no market is called {name!r}", hint=f"known markets: {known}")
    what = f"the plug-in of the market {name} ({points[name].value})"
    try:
        plugin = points[name].load()
    except Exception as error:  # somebody else's module: it may raise anything
        raise UserError(f"{what} cannot be imported: {error}", hint="fix it, or remove its package") from error
    if not isinstance(getattr(plugin, "facts", None), MarketFacts):
        hint = "every plug-in has to: docs/how-to/write-a-provider.md"
        raise UserError(f"{what} states no facts of its market", hint=hint)
    return plugin


@cache
def facts_of(name: str) -> MarketFacts | None:
    """None: no such market is installed, or its plug-in cannot be used, which opening the market says."""
    try:
        facts: MarketFacts = load_plugin(name).facts
    except UserError:
        return None
    return facts


def every_market() -> dict[str, MarketFacts]:
    """The facts of all markets with a usable plug-in, in their order."""
    found = {name: facts for name in available() if (facts := facts_of(name)) is not None}
    return dict(sorted(found.items(), key=lambda each: (each[1].order, each[0])))


def claims_of(name: str) -> tuple[MarketClaim, ...]:
    """What is assumed of the market; nothing of one that is not installed, or only simulated."""
    facts = facts_of(name)
    return () if facts is None else facts.certify.claims
