"""vast.ai: interruptible and on-demand instances through the vendor's own SDK.

``plugin`` is the entry point. Nothing here imports the SDK until a connection is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.domain.errors import UserError, install_hint
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.vastai.facts import FACTS

SDK_PACKAGES = frozenset({"vastai", "requests"})


class VastaiPlugin:
    name = "vastai"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.VastaiSettings``. Raises ``UserError``; sends nothing yet."""
        from autopilot.providers.vastai.adapter import VastaiProvider
        from autopilot.providers.vastai.client import VastaiClient
        from autopilot.providers.vastai.config import parse_settings
        from autopilot.providers.vastai.transport import SdkTransport

        parsed = parse_settings(settings)
        try:
            client = VastaiClient(SdkTransport(parsed), clock)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in SDK_PACKAGES:
                raise
            raise UserError("the vast.ai SDK is not installed", hint=install_hint("vast")) from error
        return VastaiProvider(parsed, client, clock)


plugin = VastaiPlugin()
