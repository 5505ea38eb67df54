"""Where things lie on a virtual machine. Where the machine is a directory, ``AUTOPILOT_ROOT`` stands before each."""

from __future__ import annotations

import os
from collections.abc import Mapping

NAME = "autopilot-host"
UNIT = NAME + ".service"


class Places:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.root = env.get("AUTOPILOT_ROOT", "").rstrip("/")
        self.lib = self.root + "/var/lib/" + NAME
        """Of this program; on the boot disk, for later boots."""
        self.program = self.lib + "/host.pyz"
        self.notes = self.lib + "/notes.json"
        self.run = self.root + "/run/autopilot"
        """In memory: gone with the power."""
        self.unit = self.root + "/etc/systemd/system/" + UNIT

    def make(self) -> None:
        """Raises ``OSError``."""
        for directory in (self.lib, self.run):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o700)
