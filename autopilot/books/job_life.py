"""What the ledger has of one job: its machines, checkpoints, bids and events, and what it has cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from autopilot import render
from autopilot.answers.codec import to_json
from autopilot.answers.money import JobSpend
from autopilot.books.receipt import summarise
from autopilot.domain.cost_columns import NO_COSTS
from autopilot.domain.job import Job
from autopilot.domain.job_forecast import GOES_ON
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.spend import report
from autopilot.engine.outstanding import Moment, Outstanding, money
from autopilot.ports.store import UnitOfWork

LEASES_DRAWN = 200
"""The newest leases of one job."""
TASKS_DRAWN = 1000
DECISIONS_A_PAGE = 100
_REPORTS_READ = 5000
"""The newest reports, over all jobs of one answer."""
_DECISIONS_READ = 1000
"""For one answer, where those of one kind are few among many."""
ANSWERS = ("lease.acquired", "lease.adopted", "lease.refused", "lease.create_unknown", "lease.abandoned")
"""Events that tell what became of a create."""


async def read_life(uow: UnitOfWork, job: Job, moment: Moment) -> render.Json:
    now, outstanding = moment.now, moment.outstanding
    leases, events = await uow.leases.list_by_job(job.id), await uow.events.list_by_job(job.id)
    rows = report(await uow.reports.sum_spend(job_id=job.id), "job", now=now)
    costs = rows[0].costs if rows else NO_COSTS
    # The machines of an array are its tasks', and of a shared one a task has its share.
    is_by_spend = job.is_array or any(lease.is_shared for lease in leases)
    by_spend = rows[0].on_demand if rows else None
    equivalent = by_spend if is_by_spend else render.on_demand_equivalent(leases, now)
    posted = await uow.ledger.sum_by_day([lease.id for lease in leases])
    forecasts = await uow.forecasts.of_jobs([job.id]) if job.status in GOES_ON else {}
    return {
        "leases": [render_lease(lease, posted[lease.id].values(), outstanding.get(lease.id)) for lease in leases],
        "checkpoints": [
            {
                "number": c.number,
                "step": c.step,
                "lease_id": c.lease_id,
                "state": render.checkpoint_state(c),
                "size_bytes": c.size_bytes,
                "verified_at": render.plain(c.verified_at),
            }
            for c in await uow.checkpoints.list_by_job(job.id)
        ],
        "bids": [render.bid(record) for record in await uow.bids.list_by_job(job.id)],
        "events": [render.event(record) for record in events],
        "spend": to_json(JobSpend(posted=costs.total, **costs.by_column, on_demand_equivalent=equivalent)),
        "forecast": render.forecast(forecasts.get(job.id)),
        "receipt": to_json(await summarise(uow, job, now, events)),
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
    """A lease with its cost and its reserves."""
    amounts = money(sum(posted, ZERO), [] if outstanding is None else [outstanding])
    return render.lease(lease) | render.amounts(amounts)


async def read_drawn(uow: UnitOfWork, job: Job, decisions: int) -> render.Json:
    """What a picture of a job takes beside its life: its newest decisions, newest first; the spans of its newest
    machines by lease; ``postings``: each instant at which something was posted for it, with the sum; and ``gpus``.

    Of an array also its ``tasks`` that have begun, the first of them.
    """
    drawn = (await uow.leases.list_by_job(job.id))[-LEASES_DRAWN:]
    return {
        "gpus": [choice.name for choice in job.spec.gpus],
        "tasks": [_task(task) for task in await uow.jobs.list_tasks(job.id, limit=TASKS_DRAWN)] if job.is_array else [],
        "decisions": await read_decisions(uow, job.id, limit=decisions),
        "spans": {lease.id: list_spans(lease) for lease in drawn},
        "postings": [
            {"at": render.plain(entry.posted_at), "amount": render.plain(entry.amount)}
            for lease in drawn
            for entry in await uow.ledger.list_entries(lease.id)
            if entry.is_spend
        ],
    }


def _task(task: Job) -> render.Json:
    return {
        "id": task.id,
        "task": task.task,
        "status": task.status,
        "reason": task.reason,
        "posted": render.plain(task.spent),
        "is_estimate": task.is_estimate,
    }


async def read_spans(uow: UnitOfWork, job_ids: Sequence[str]) -> dict[str, render.Json]:
    """By job: its newest machines, the spans of each by lease, and the events that say when its command ran."""
    leases: dict[str, list[Lease]] = {job_id: [] for job_id in job_ids}
    for lease in await uow.leases.list_by_jobs(job_ids):
        for job_id in {lease.job_id or "", *(use.job_id for use in lease.uses)} & leases.keys():
            leases[job_id].append(lease)
    events: dict[str, list[render.Json]] = {job_id: [] for job_id in job_ids}
    for record in await uow.events.list_named("agent.reported", job_ids, limit=_REPORTS_READ):
        events[record.job_id or ""].append(render.event(record))
    return {
        job_id: {
            "leases": [render.lease(lease) for lease in of_job[-LEASES_DRAWN:]],
            "spans": {lease.id: list_spans(lease) for lease in of_job[-LEASES_DRAWN:]},
            "events": events[job_id],
        }
        for job_id, of_job in leases.items()
    }


async def read_newest_decisions(uow: UnitOfWork, owner: int | None, before: str, kind: str) -> render.Json:
    """Of that owner's jobs, or of all, those before the one with the id ``before``, newest first.

    ``kind``: the topic of an action, ``veto``, or empty for all. ``before`` of the answer: where the next page begins;
    null: it is the last.
    """
    found: list[render.Json] = []
    for _ in range(_DECISIONS_READ // DECISIONS_A_PAGE):
        records = await uow.decisions.list_newest(limit=DECISIONS_A_PAGE, before=before, owner=owner)
        titles = await uow.jobs.list_titles({record.job_id for record in records})
        for record in records:
            before = record.id
            topics = {action.topic for action in record.actions} | ({"veto"} if record.vetoes else set())
            if kind and kind not in topics:
                continue
            title = titles.get(record.job_id)
            found.append(render.decision(record) | {"job_id": record.job_id, "job": title.name if title else ""})
            if len(found) == DECISIONS_A_PAGE:
                return {"decisions": found, "before": before}
        if len(records) < DECISIONS_A_PAGE:
            return {"decisions": found, "before": None}
    return {"decisions": found, "before": before}


def list_spans(lease: Lease) -> list[render.Json]:
    """The stretches of a lease's life, oldest first, each with what it bills ($/h)."""
    return [
        {
            "status": span.status,
            "billed_rate": render.plain(span.billed_rate),
            "storage_rate": render.plain(span.storage_rate),
            "started_at": render.plain(span.started_at),
            "ended_at": render.plain(span.ended_at),
        }
        for span in lease.spans
    ]
