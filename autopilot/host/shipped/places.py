"""Where things lie on a virtual machine. If the machine is a directory, ``AUTOPILOT_ROOT`` goes before each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

NAME = "autopilot-host"
UNIT = NAME + ".service"
AGENT_INBOX, AGENT_OUTBOX, AGENT_STATE = "/run/autopilot/in", "/run/autopilot/out", "/var/lib/autopilot-state"
"""As the container sees them: what it is told, what it wishes, and what its agent keeps beyond the container."""
NOTICE, ENV, WISH = "notice", "env.json", "wish"


class Places:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.root = env.get("AUTOPILOT_ROOT", "").rstrip("/")
        self.lib = self.root + "/var/lib/" + NAME
        self.program = self.lib + "/host.pyz"
        self.notes = self.lib + "/notes.json"
        self.agent_state = self.root + "/var/lib/autopilot-data"
        # In memory, so gone with the power. Nothing else may hold a secret.
        self.run = self.root + "/run/autopilot"
        self.lock = self.run + "/lock"
        self.stopping = self.run + "/stopping"
        self.inbox = self.run + "/in"
        self.outbox = self.run + "/out"
        self.notice = f"{self.inbox}/{NOTICE}"
        self.env_file = f"{self.inbox}/{ENV}"
        self.wish = f"{self.outbox}/{WISH}"
        self.unit = self.root + "/etc/systemd/system/" + UNIT
        self.docker_settings = self.root + "/etc/docker/daemon.json"
        address = env.get("DOCKER_HOST", "")
        is_socket = address.startswith("unix://")
        self.docker_socket = address[len("unix://") :] if is_socket else self.root + "/run/docker.sock"
        self.signal = self.root + "/opt/mithril/MITHRIL_SIGNAL.yml"

    def make(self) -> None:
        """Raises ``OSError``."""
        for directory in (self.lib, self.run, self.inbox, self.outbox, self.agent_state):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o700)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.lib).free
