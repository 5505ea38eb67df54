"""How open jobs will probably end: the newest forecast of each, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from autopilot.domain.job_forecast import JobForecast
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryForecasts(MemoryRepository):
    __slots__ = ()

    async def save(self, forecast: JobForecast) -> None:
        with self._access.write() as tables:
            tables.forecasts.put(forecast.job_id, forecast)

    async def of_jobs(self, job_ids: Collection[str]) -> Mapping[str, JobForecast]:
        found = (self._access.read().forecasts.get(job_id) for job_id in job_ids)
        return {forecast.job_id: forecast for forecast in found if forecast is not None}

    async def forget(self, job_id: str) -> None:
        with self._access.write() as tables:
            tables.forecasts.remove(job_id)
