"""Renews the forecasts of open jobs: one at a time, so that a thousand jobs cost no more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from autopilot.domain.job import Job
from autopilot.domain.job_forecast import GOES_ON, RENEWED_AFTER, JobForecast
from autopilot.engine.engine import Engine
from autopilot.engine.outstanding import Moment, read_moment
from autopilot.planning.floor_prospects import read_cheapest, with_bidders
from autopilot.planning.plan import forecast_of
from autopilot.planning.prospects import prospects
from autopilot.policy.eligibility import eligible
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, StoreUnavailable
from autopilot.pricing.rule.cost import price_candidates

log = structlog.get_logger(__name__)

FORECAST_EVERY_REAL_S = 60
"""Between two: one takes up to 2 s of a core, in a thread, so this bounds their share to about 3 %."""


def _may_be_reckoned(job: Job) -> bool:
    """The start of a job that waits for others is unknown; an array's own plan says more than one machine's
    forecast, and its tasks are too many.
    """
    if job.is_array or job.array_id is not None:
        return False
    return job.status in GOES_ON and job.remaining_work is not None and not job.waits_for_jobs


class Forecaster:
    def __init__(self, engine: Engine, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._tried: dict[str, datetime] = {}
        """Jobs without a possible forecast: they wait for their turn like the others."""

    async def renew(self) -> None:
        """Calculate the oldest of those that are due; a job without one comes first.

        A ledger or a market that cannot be read now is left for the next turn.
        """
        now, params = self._clock.now(), self._engine.config.params
        try:
            async with self._store.snapshot() as uow:
                moment = await read_moment(uow, now, params)
                jobs = [job for job in moment.jobs if _may_be_reckoned(job)]
                known = await uow.forecasts.of_jobs([job.id for job in jobs])
            job = self._choose(jobs, known, now)
            if job is None:
                return
            self._tried[job.id] = now
            forecast = await self._reckon(job, moment)
            if forecast is None:
                return
            del self._tried[job.id]
            async with self._store.transaction() as uow:
                newest = await uow.jobs.find(job.id)
                # Its limits may have changed, or it may have ended, during the calculation.
                if newest is not None and not newest.status.is_final and newest.spec == job.spec:
                    await uow.forecasts.save(forecast)
        except StoreUnavailable as problem:
            log.warning("forecast.left", reason=str(problem))

    def _choose(self, jobs: Sequence[Job], known: Mapping[str, JobForecast], now: datetime) -> Job | None:
        made = {job_id: forecast.at for job_id, forecast in known.items()}
        self._tried = {job.id: self._tried[job.id] for job in jobs if job.id in self._tried}
        due: list[tuple[datetime, str, Job]] = []
        for job in jobs:
            last = max((at for at in (made.get(job.id), self._tried.get(job.id)) if at is not None), default=None)
            if last is None:
                return job
            if now - last >= RENEWED_AFTER:
                due.append((last, job.id, job))
        return min(due)[2] if due else None

    async def _reckon(self, job: Job, moment: Moment) -> JobForecast | None:
        """None if nothing can be said, as no offer fits now."""
        engine, now, params = self._engine, moment.now, self._engine.config.params
        offers = await engine.offers(job.spec.query)
        market = await with_bidders(engine, job, engine.market_of(job, offers, now), now)
        candidates = price_candidates(job, market, eligible(job, market, now, params), params)
        async with self._store.snapshot() as uow:
            cheapest = await read_cheapest(uow, offers, now)
        likely = await asyncio.to_thread(prospects, job, candidates, market, now, params, 0.0, cheapest)
        if likely.forecast is None:
            return None
        money = moment.money_of(job)
        return forecast_of(job, likely.forecast, now, money.posted + money.accrued)
