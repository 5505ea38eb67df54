"""The daemon from a Python program: ``Client``, and ``AsyncClient`` for asyncio.

    from autopilot.client import Client

    with Client() as client:
        job = client.submit("job.toml").wait()
        print(job.status, job.posted + job.accrued)

It finds the daemon as the command line does: by ``AUTOPILOT_URL`` and ``AUTOPILOT_TOKEN``, by ``autopilot login``, or
at the socket of this machine. Money is ``Decimal``, an instant a ``datetime``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autopilot.client.asynchronous import AsyncClient, AsyncJob
    from autopilot.client.errors import ApiError, JobEnded, Unreachable
    from autopilot.client.synchronous import Client, SubmittedJob

__all__ = ["ApiError", "AsyncClient", "AsyncJob", "Client", "JobEnded", "SubmittedJob", "Unreachable"]

_ROOMS = {
    "asynchronous": ("AsyncClient", "AsyncJob"),
    "errors": ("ApiError", "JobEnded", "Unreachable"),
    "synchronous": ("Client", "SubmittedJob"),
}


def __getattr__(name: str) -> object:
    """Loaded when it is asked for: the command line uses this package without aiohttp and pydantic."""
    room = next((room for room, names in _ROOMS.items() if name in names), None)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)
