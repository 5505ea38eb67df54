"""What the ledger has of one job: its machines, checkpoints, bids and events, and what it has cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal

from autopilot.api import render
from autopilot.api.outstanding import Outstanding, money
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.spend import COLUMNS, report
from autopilot.ports.store import UnitOfWork

ANSWERS = ("lease.acquired", "lease.adopted", "lease.refused", "lease.create_unknown", "lease.abandoned")
"""Events that tell what became of a create."""


async def read_life(uow: UnitOfWork, job: Job, outstanding: Mapping[str, Outstanding], now: datetime) -> render.Json:
    leases = await uow.leases.list_by_job(job.id)
    rows = report(await uow.reports.sum_spend(job_id=job.id), "job", now=now)
    spend = rows[0] if rows else None
    posted = await uow.ledger.sum_by_day([lease.id for lease in leases])
    return {
        "leases": [render_lease(lease, posted[lease.id].values(), outstanding.get(lease.id)) for lease in leases],
        "checkpoints": [
            {
                "number": c.number,
                "step": c.step,
                "lease_id": c.lease_id,
                "size_bytes": c.size_bytes,
                "verified_at": render.plain(c.verified_at),
            }
            for c in await uow.checkpoints.list_by_job(job.id)
        ],
        "bids": [render.bid(record) for record in await uow.bids.list_by_job(job.id)],
        "events": [render.event(record) for record in await uow.events.list_by_job(job.id)],
        "spend": {
            "posted": render.plain(ZERO if spend is None else spend.posted),
            **{column: render.plain(getattr(spend, column, ZERO)) for column in COLUMNS},
            "on_demand_equivalent": render.plain(render.on_demand_equivalent(leases, now)),
        },
    }


async def read_decisions(uow: UnitOfWork, job_id: str, *, limit: int) -> list[render.Json]:
    """The newest so many, newest first, each with what the market answered."""
    decided_by = {lease.id: lease.decision_id for lease in await uow.leases.list_by_job(job_id)}
    answers = [each for each in await uow.events.list_by_job(job_id) if each.name in ANSWERS]
    bids = await uow.bids.list_by_job(job_id)
    return [
        render.decision(record)
        | {
            "answers": [render.event(each) for each in answers if decided_by.get(each.lease_id or "") == record.id],
            "bids": [render.bid(each) for each in bids if each.decision_id == record.id],
        }
        for record in await uow.decisions.list_by_job(job_id, limit=limit)
    ]


def render_lease(lease: Lease, posted: Iterable[Decimal], outstanding: Outstanding | None) -> render.Json:
    """A lease with what it has cost and what is held back for it."""
    amounts = money(sum(posted, ZERO), [] if outstanding is None else [outstanding])
    return render.lease(lease) | render.amounts(amounts)
