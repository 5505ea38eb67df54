"""How an open job will probably end: what it will cost, and when it is done, as calculated at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.job import JobStatus

GOES_ON = (JobStatus.PENDING, JobStatus.STARTING, JobStatus.RUNNING, JobStatus.RECOVERING)
"""Statuses in which a job is on its way to its end; of others nothing is foretold."""
RENEWED_AFTER = timedelta(minutes=30)
"""An older one is recalculated while the job is open."""


@dataclass(frozen=True, slots=True)
class JobForecast:
    """Shares and quantiles are over the markets that were played through. Dollars are those spent from ``at`` on."""

    job_id: str
    at: datetime
    spent: Decimal
    """Posted and accrued by then, $."""
    mean: Decimal
    p10: Decimal
    p50: Decimal
    p90: Decimal
    done_p10: datetime | None
    """By then the work is done in a tenth of the markets in which it ever is; None: it is in none."""
    done_p50: datetime | None
    done_p90: datetime | None
    on_time: float | None
    """Share in which it is done by its deadline and within its budget; None: it has no deadline."""
    finished: float
    """Share in which it is done at all before the money is out."""
    parked: float
    """Share in which the money is out first."""
    preemptions: float
    """Expected number of losses of a spot machine."""
