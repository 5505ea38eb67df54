"""Schedules as JSON."""

from __future__ import annotations

from datetime import datetime

from autopilot import render
from autopilot.domain.cadence import list_due
from autopilot.domain.schedule import Schedule, ScheduleStatus
from autopilot.ports.store import UnitOfWork

NEXT_SHOWN = 3


async def list_live(uow: UnitOfWork, owner: int | None) -> list[Schedule]:
    """Those that have not ended: of all, or of that owner."""
    return [each for each in await uow.schedules.list_live() if owner in (None, each.owner)]


def firings_shown(schedule: Schedule) -> int:
    """How many of those that are due next."""
    count = schedule.cadence.count
    return NEXT_SHOWN if count is None else min(NEXT_SHOWN, max(count - schedule.fired, 0))


async def render_schedule(uow: UnitOfWork, schedule: Schedule, now: datetime) -> render.Json:
    cadence, is_active = schedule.cadence, schedule.status is ScheduleStatus.ACTIVE
    last, sums = schedule.last_job, await uow.ledger.sum_schedule(schedule.id, schedule.counts_from(now))
    title = (await uow.jobs.list_titles([last])).get(last) if last is not None else None
    since = max(schedule.looked_until, now)
    coming = list_due(cadence, since, firings_shown(schedule)) if is_active else []
    return {
        "id": schedule.id,
        "name": schedule.spec.name,
        "owner": schedule.owner,
        "status": schedule.status,
        "reason": schedule.reason,
        "created_at": render.plain(schedule.created_at),
        "ended_at": render.plain(schedule.ended_at),
        "cron": cadence.cron,
        "zone": cadence.zone,
        "overlap": cadence.overlap,
        "catch_up": cadence.catch_up,
        "until": render.plain(cadence.until),
        "count": cadence.count,
        "next": [render.plain(due) for due in coming],
        "fired": schedule.fired,
        "last": last
        and {"job": last, "due_at": render.plain(schedule.last_due), "status": title.status if title else None},
        "left_out": schedule.left_out,
        "left_out_at": render.plain(schedule.left_out_at),
        "left_out_reason": schedule.left_out_reason,
        "job_budget": render.plain(schedule.spec.budget),
        "budget": render.plain(cadence.budget),
        "is_monthly": cadence.is_monthly,
        "posted": render.plain(sums.posted),
        "held": render.plain(sums.held),
    }
