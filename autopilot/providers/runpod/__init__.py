"""RunPod: on-demand pods, and spot pods for as long as the market rents any.

``plugin`` is the entry point. Nothing here imports the SDK; the connection does so at its first use, in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from autopilot.domain.errors import UserError, install_hint
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.runpod.facts import FACTS

SDK_PACKAGE = "runpod"


class RunpodPlugin:
    name = "runpod"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.RunpodSettings``. Raises ``UserError``; sends nothing yet."""
        from autopilot.providers.runpod.adapter import RunpodProvider
        from autopilot.providers.runpod.client import RunpodClient
        from autopilot.providers.runpod.config import parse_settings
        from autopilot.providers.runpod.transport import HttpTransport

        parsed = parse_settings(settings)
        if find_spec(SDK_PACKAGE) is None:
            raise UserError("the RunPod SDK is not installed", hint=install_hint("runpod"))
        return RunpodProvider(parsed, RunpodClient(HttpTransport(parsed), clock), clock)


plugin = RunpodPlugin()
