"""The daemon from a Python program: ``Client``, and ``AsyncClient`` for asyncio.

    from autopilot.client import Client

    with Client() as client:
        job = client.submit("job.toml").wait()
        print(job.status, job.posted + job.accrued)

It finds the daemon as the command line does: by ``AUTOPILOT_URL`` and ``AUTOPILOT_TOKEN``, by ``autopilot login``, or
at the socket of this machine. Money is ``Decimal``, an instant a ``datetime``.
"""

from autopilot.client.asynchronous import AsyncClient, AsyncJob
from autopilot.client.errors import ApiError, JobEnded, Unreachable
from autopilot.client.synchronous import Client, SubmittedJob

__all__ = ["ApiError", "AsyncClient", "AsyncJob", "Client", "JobEnded", "SubmittedJob", "Unreachable"]
