"""What a rented machine runs first."""

from __future__ import annotations

from typing import Protocol


class Bootstrap(Protocol):
    def onstart(self, job_id: str, lease_id: str) -> str:
        """The start command for the lease's instance: fetches the pinned agent and gives it its orders' URL."""
        ...

    def host_script(self, job_id: str, lease_id: str, *, stays: bool) -> str:
        """The user data of a market that boots virtual machines: a shell script, at most 4,096 characters.

        It brings up what runs the job's image with the start command of ``onstart`` in it. No secret is in it.
        ``stays``: the machine never switches itself off, for that would not end its bill.
        """
        ...
