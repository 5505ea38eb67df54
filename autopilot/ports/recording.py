"""Where decisions are recorded, for replays that must come out the same."""

from __future__ import annotations

from typing import Protocol

from autopilot.policy.scene import Scene


class Recorder(Protocol):
    def record(self, scene: Scene) -> None:
        """Must not raise: a full disk under a recording is no reason to stop deciding."""
        ...
