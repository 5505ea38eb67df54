"""A ledger in memory with a month of history: a job that works, one that is parked, one that has failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.books.ledger_view import LedgerReader
from autopilot.clock import ManualClock
from autopilot.domain.actions import Note
from autopilot.domain.hosts import HostRecord
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint, JobStatus
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import Number
from autopilot.domain.offer import CapacityType
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.policy.guard import Limits
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord, Store
from autopilot_lab.memory_store.store import MemoryStore
from tests.leases import change_lease
from tests.store_records import START, a_job, a_lease, an_entry

D = Decimal
HOUR = timedelta(hours=1)
NOW = START + 5 * HOUR
JOB = "01WEB00000000000000000001A"
LIMITS = Limits(D(20), D(100), D("2.50"), 4, 5, 20)


def leases_of(gpu: str = "RTX 4090", host: str = "h1", instance: str = "47848147") -> list[Lease]:
    """The first was outbid after two hours, the second works on demand at another market."""
    lost = a_lease("lease-a", JOB, gpu=gpu, host_id=host, instance_id=instance, on_demand_price=D("0.60"))
    lost = lost.bill_as(InstanceStatus.PROVISIONING, D(0), D(0), START)
    lost = lost.bill_as(InstanceStatus.RUNNING, D("0.31"), D("0.002"), START + 0.1 * HOUR)
    lost = lost.bill_as(InstanceStatus.STOPPED, D(0), D("0.002"), START + 2 * HOUR).stop_billing(START + 2.5 * HOUR)
    lost = change_lease(lost, state=LeaseState.GONE, reason=Reason.OUTBID, gone_at=START + 2.5 * HOUR)
    works = a_lease("lease-b", JOB, gpu=gpu, provider="runpod", instance_id="h45dn", on_demand_price=D("0.59"))
    works = change_lease(works, status=InstanceStatus.RUNNING, last_seen_at=NOW)
    works = replace(works, capacity_type=CapacityType.ON_DEMAND, bid=D("0.59"))
    works = works.bill_as(InstanceStatus.RUNNING, D("0.59"), D(0), START + 2.2 * HOUR)
    return [lost, works]


def events_of(detail: str = "rig") -> list[EventRecord]:
    def at(hours: float, name: str, lease: str | None = None, /, **fields: Number) -> EventRecord:
        return EventRecord(START + hours * HOUR, name, JOB, lease, tuple(fields.items()))

    return [
        at(0, "job.submitted", name=detail),
        at(0, "lease.intended", "lease-a", provider="vastai", machine_id=detail, gpu="RTX 4090", bid=D("0.30")),
        at(0.3, "agent.reported", "lease-a", state="running", boot=1),
        at(1, "checkpoint.verified", "lease-a", step=100, number=1),
        at(2, "lease.paused", "lease-a", cause="outbid", bid=D("0.31")),
        at(2.1, "work.lost", "lease-a", seconds=D(600)),
        at(2.4, "agent.reported", "lease-b", state="running", boot=1),
        at(3, "lease.refused", "lease-b", reason="refused", message=detail),
        at(4, "checkpoint.verified", "lease-b", step=400, number=2),
    ]


FORECAST = JobForecast(
    JOB,
    NOW - timedelta(minutes=20),
    spent=D("2.2"),
    mean=D("1.5"),
    p10=D("1"),
    p50=D("1.4"),
    p90=D("2.2"),
    done_p10=START + 9 * HOUR,
    done_p50=START + 10 * HOUR,
    done_p90=START + 14 * HOUR,
    on_time=0.96,
    finished=1,
    parked=0,
    preemptions=1.2,
)


def decisions_of(detail: str = "43668") -> list[DecisionRecord]:
    option: dict[str, Number] = {
        "option": "spot",
        "cost": D("1.50"),
        "bid": D("0.31"),
        "provider": "vastai",
        "machine_id": detail,
    }
    return [
        DecisionRecord(
            "01DECISION1",
            JOB,
            START,
            (Note("acquire", (("provider", "vastai"), ("bid", D("0.30")), ("reason", "cheapest"))),),
            (),
            (Note("option", (*option.items(), ("chosen", True))), Note("standing", (("slack_s", 3600),))),
        ),
        DecisionRecord("01DECISION2", JOB, START + HOUR, (Note("change_bid", (("bid", D("0.31")),)),), (), ()),
        DecisionRecord("01DECISION3", JOB, START + 2 * HOUR, (), (Note("veto", (("because", detail),)),), ()),
    ]


def a_host(machine_id: str, gpu: str) -> HostRecord:
    """Of two launches one came to nothing."""
    fault, loads = Reason.STUCK_LOADING, (("some/image:1", 95),)
    return HostRecord("vastai", machine_id, "", gpu, NOW, 2.0, 1.0, fault, NOW, 0.4, loads, blocked_at=NOW)


async def fill(store: Store, *, name: str = "research", detail: str = "rig", gpu: str = "RTX 4090") -> None:
    leases = leases_of(gpu, detail, detail)
    saved = Checkpoint(JOB, "lease-b", 2, 1, 400, 4 * HOUR, 10_000, 1, START + 4 * HOUR)
    job = a_job(
        JOB,
        name=name,
        status=JobStatus.RUNNING,
        reason=Reason.WORKING,
        leases=tuple(leases[1:]),
        spent=D("2.237654321"),
        step=400,
        progress=D("0.4"),
        work_done=4 * HOUR,
        checkpoint=saved,
    )
    terms: dict[str, Any] = {"budget": D("8.00"), "deadline": START + 24 * HOUR, "work_estimate": 10 * HOUR}
    async with store.transaction() as work:
        await work.jobs.save(replace(job, spec=replace(job.spec, **terms)))
        for lease in leases:
            await work.leases.save(lease)
        await work.checkpoints.add(saved)
        await work.forecasts.save(FORECAST)
        await work.jobs.save(a_job("job-parked", name=f"{name}-2", status=JobStatus.PARKED, reason=Reason.USER_STOPPED))
        failed = {"status": JobStatus.FAILED, "reason": Reason.COMMAND_FAILED, "finished_at": START + HOUR}
        await work.jobs.save(a_job("job-failed", name=f"{name}-3", exit_code=1, **failed))
        await work.events.add(events_of(detail))
        await work.hosts.save([a_host(detail, gpu)])
        for decision in decisions_of(detail):
            await work.decisions.add(decision)
        await work.bids.save(BidRecord("bid-1", "lease-a", START + HOUR, D("0.31"), "done", "01DECISION2"))
        await work.ledger.post(
            [
                an_entry("e1", "0.587654321", lease=leases[0], job_id=JOB, posted_at=START + 2 * HOUR),
                an_entry("e2", "1.4", lease=leases[1], job_id=JOB, posted_at=START + 4 * HOUR),
                an_entry("e3", "0.25", lease=leases[0], job_id=JOB, day=(START - 3 * 24 * HOUR).date()),
            ]
        )
        await work.prices.add(_price(hours, gpu, detail) for hours in range(5))


def _price(hours: int, gpu: str, machine: str) -> PriceObservation:
    return PriceObservation("vastai", machine, gpu, 1, D("0.25") + D(hours) / 100, D("0.60"), START + hours * HOUR)


async def a_reader(store: Store | None = None, now: datetime = NOW, **changes: str) -> LedgerReader:
    filled = store or MemoryStore()
    await fill(filled, **changes)
    clock = ManualClock(now)
    return LedgerReader(filled, clock, LIMITS)
