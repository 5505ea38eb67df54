"""What every store keeps of how open jobs will probably end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings

from autopilot.domain.job_forecast import JobForecast
from autopilot.ports.store import Store
from tests.store_records import START, a_job, forgotten, records

HOUR = timedelta(hours=1)


def a_forecast(job_id: str = "job-000001") -> JobForecast:
    return JobForecast(
        job_id,
        START,
        spent=Decimal("0.5"),
        mean=Decimal("1.25"),
        p10=Decimal("1"),
        p50=Decimal("1.2"),
        p90=Decimal("1.5"),
        done_p10=START + HOUR,
        done_p50=START + 2 * HOUR,
        done_p90=START + 3 * HOUR,
        on_time=0.97,
        finished=1.0,
        parked=0.0,
        preemptions=0.5,
    )


class WhatAStoreKeepsOfForecasts:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(forecast=records(JobForecast, job_id="job-000001"))
    async def test_one_comes_back_equal(self, store: Store, forecast: JobForecast) -> None:
        async with forgotten(store) as work:
            await work.jobs.save(a_job())
            await work.forecasts.save(forecast)
            assert await work.forecasts.of_jobs(["job-000001"]) == {"job-000001": forecast}

    async def test_the_newest_of_each_job_is_kept_until_it_is_forgotten(self, store: Store) -> None:
        newer = replace(a_forecast(), at=START + HOUR, on_time=None, done_p10=None, done_p50=None, done_p90=None)
        async with store.transaction() as work:
            for number in (1, 2, 3):
                await work.jobs.save(a_job(f"job-00000{number}"))
            for forecast in (a_forecast(), newer, a_forecast("job-000002")):
                await work.forecasts.save(forecast)
        async with store.snapshot() as work:
            found = await work.forecasts.of_jobs(["job-000001", "job-000003"])
            assert found == {"job-000001": newer}
            assert await work.forecasts.of_jobs([]) == {}
        async with store.transaction() as work:
            await work.forecasts.forget("job-000001")
            await work.forecasts.forget("job-000003")
            assert set(await work.forecasts.of_jobs(["job-000001", "job-000002"])) == {"job-000002"}
