"""How open jobs will probably end: the newest forecast of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import delete, select

from autopilot.domain.job_forecast import JobForecast
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import job_forecasts
from autopilot.store.statements import SqlRepository


class SqlForecasts(SqlRepository):
    __slots__ = ()

    async def save(self, forecast: JobForecast) -> None:
        await self._sql.upsert(job_forecasts, [values_of(job_forecasts, forecast)])

    async def of_jobs(self, job_ids: Collection[str]) -> Mapping[str, JobForecast]:
        rows = await self._sql.fetch_all(select(job_forecasts).where(job_forecasts.c.job_id.in_(job_ids)))
        found = (record_of(JobForecast, job_forecasts, row) for row in rows)
        return {forecast.job_id: forecast for forecast in found}

    async def forget(self, job_id: str) -> None:
        await self._sql.run(delete(job_forecasts).where(job_forecasts.c.job_id == job_id))
