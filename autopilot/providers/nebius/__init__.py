"""Nebius AI Cloud: preemptible virtual machines under a cap on the spot price, through the vendor's SDK.

``plugin`` is the entry point. The SDK is an extra, and is imported when this market is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.domain.errors import UserError, install_hint
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.nebius.facts import FACTS


class NebiusPlugin:
    name = "nebius"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.NebiusSettings``. Raises ``UserError``; sends nothing yet."""
        from autopilot.providers.nebius.config import parse_settings

        parsed = parse_settings(settings)
        try:
            from autopilot.providers.nebius.adapter import NebiusProvider
            from autopilot.providers.nebius.client import NebiusClient
            from autopilot.providers.nebius.sdk import Sdk
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("nebius", "grpc", "google", "jwt"):
                raise
            raise UserError("the Nebius SDK is not installed", hint=install_hint("nebius")) from None
        return NebiusProvider(parsed, NebiusClient(Sdk(parsed), clock), clock)


plugin = NebiusPlugin()
