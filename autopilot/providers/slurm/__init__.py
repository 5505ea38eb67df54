"""The queue of a Slurm cluster that the user may use: each lease is a job there, and a directory.

``plugin`` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.slurm.facts import FACTS


class SlurmPlugin:
    name = "slurm"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.SlurmSettings``. Raises ``UserError``; connects to nothing yet."""
        from autopilot.providers.slurm.adapter import SlurmProvider
        from autopilot.providers.slurm.config import parse_settings

        return SlurmProvider(parse_settings(settings), clock)


plugin = SlurmPlugin()
