"""What whole pages show, each of one snapshot: sums on one page agree, and what several of them need is read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from autopilot import render
from autopilot.answers.codec import to_json
from autopilot.answers.money import MonthOfMoney
from autopilot.books.budget import burning, read_account
from autopilot.books.reconciliation import reconciliation_of_dearest
from autopilot.books.schedule_view import list_live, render_schedule
from autopilot.books.spend import spend, spend_of_month
from autopilot.domain.job import Job
from autopilot.domain.job_forecast import GOES_ON
from autopilot.domain.lease import Lease
from autopilot.domain.time import utc_day
from autopilot.engine.outstanding import Moment
from autopilot.policy.guard import Limits
from autopilot.ports.store import UnitOfWork

OVER_SHOWN = 100
"""The newest jobs that have ended."""
ROWS_SHOWN = 100
"""Rows of one table on the page of costs."""

RenderJob = Callable[[Job, Moment], render.Json]


async def read_now(
    uow: UnitOfWork,
    moment: Moment,
    render_job: RenderJob,
    limits: Limits,
    credits: Mapping[str, Decimal | None],
    owner: int | None = None,
) -> render.Json:
    """``jobs``: open ones and the newest that are over; ``tasks`` of arrays that have machines, without their figures;
    ``schedules`` that have not ended; ``burns`` of open jobs, $/h by id, and ``forecasts`` of those that have one;
    ``account`` as in a budget and ``month``, its spend: null for an ``owner``, whose jobs alone are told of.
    """
    still = [job for job in moment.jobs if owner in (None, job.owner) and job.array_id is None]
    over = await uow.jobs.list_newest(limit=OVER_SHOWN, owner=owner, is_over=True)
    at_work = [job for job in moment.jobs if owner in (None, job.owner) and job.array_id is not None and job.leases]
    forecasts = await uow.forecasts.of_jobs([job.id for job in still if job.status in GOES_ON])
    month = {"by": "month", "month": f"{utc_day(moment.now):%Y-%m}"}
    return {
        "jobs": [render_job(job, moment) for job in {job.id: job for job in (*still, *over)}.values()],
        "tasks": [{"id": job.id, "name": job.spec.name, "array_id": job.array_id} for job in at_work],
        "schedules": [await render_schedule(uow, each, moment.now) for each in await list_live(uow, owner)],
        "burns": {job.id: render.plain(burning(_leases_of(job, moment))) for job in still},
        "forecasts": {job_id: render.forecast(each) for job_id, each in forecasts.items()},
        "account": to_json(await read_account(uow, moment, limits, credits)) if owner is None else None,
        "month": to_json(await spend(uow, moment, month)) if owner is None else None,
    }


def _leases_of(job: Job, moment: Moment) -> list[Lease]:
    """The leases of a job; for an array, those of its tasks."""
    return [lease for each in moment.jobs if job.id in (each.id, each.array_id) for lease in each.leases]


async def read_money(uow: UnitOfWork, moment: Moment, limits: Limits, by: str, month: str) -> MonthOfMoney:
    """Spend of the UTC month, grouped, and the bills. Raises ``UserError``."""
    grouped, days = await spend_of_month(uow, moment, by, month, ROWS_SHOWN)
    return MonthOfMoney(
        spend=grouped,
        days=days,
        account=await read_account(uow, moment, limits, {}),
        bills=await reconciliation_of_dearest(uow, moment, month, ROWS_SHOWN),
    )
