"""The directory that daemon and tunnels share: neither checkpoints nor the key of addresses lie there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TunnelsPlace:
    root: Path

    @property
    def wanted(self) -> Path:
        """Which machines the daemon wants to be dialled."""
        return self.root / "dialled.json"

    @property
    def states(self) -> Path:
        """How the connections to them are."""
        return self.root / "states.json"

    @property
    def key(self) -> Path:
        """By which they are dialled, and nothing else is; its public half lies beside it."""
        return self.root / "key"

    @property
    def hosts(self) -> Path:
        """A directory: for each lease, each of its starts and each address the key that its machine has shown."""
        return self.root / "hosts"
