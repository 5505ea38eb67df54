"""How open jobs will probably end: the newest forecast of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from autopilot.domain.job_forecast import JobForecast


class Forecasts(Protocol):
    async def save(self, forecast: JobForecast) -> None:
        """In place of the job's former one."""
        ...

    async def of_jobs(self, job_ids: Collection[str]) -> Mapping[str, JobForecast]:
        """By job id, of those that have one."""
        ...

    async def forget(self, job_id: str) -> None:
        """Its inputs no longer hold."""
        ...
