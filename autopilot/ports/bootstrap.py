"""What a rented machine runs first."""

from __future__ import annotations

from typing import Protocol


class Bootstrap(Protocol):
    def onstart(self, job_id: str, lease_id: str) -> str:
        """The start command for the lease's instance: fetches the pinned agent and gives it its orders' URL."""
        ...
