"""Machines of one's own, reached by the system's ``ssh``: each lease is a directory there, and its processes.

``plugin`` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.ssh.facts import FACTS


class SshPlugin:
    name = "ssh"
    facts = FACTS

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """Keys are those of ``config.SshSettings``. Raises ``UserError``; connects to nothing yet."""
        from autopilot.providers.ssh.adapter import SshProvider
        from autopilot.providers.ssh.config import parse_settings

        return SshProvider(parse_settings(settings), clock)


plugin = SshPlugin()
