"""Mithril: virtual machines by bids in a blind second-price auction, through an HTTP client of our own.

``plugin`` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.mithril.facts import FACTS


class MithrilPlugin:
    name = "mithril"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.MithrilSettings``. Raises ``UserError``; sends nothing yet."""
        from autopilot.providers.mithril.adapter import MithrilProvider
        from autopilot.providers.mithril.client import MithrilClient
        from autopilot.providers.mithril.config import parse_settings
        from autopilot.providers.mithril.transport import HttpTransport

        parsed = parse_settings(settings)
        return MithrilProvider(parsed, MithrilClient(HttpTransport(parsed), clock), clock)


plugin = MithrilPlugin()
