"""Domain values as JSON. Money and fractions are decimal strings, instants ISO 8601 in UTC, durations seconds.

What machines read of themselves is numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from autopilot.answers.codec import plain as plain
from autopilot.domain.actions import Note
from autopilot.domain.after import After, On, waited_for
from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.code import JobCode
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.lease import Lease, time_running
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.readings import MachineReading, Readings
from autopilot.domain.start_faults import fault_of
from autopilot.engine.outstanding import Money
from autopilot.engine.waits import Wait
from autopilot.policy.eligibility import why_not
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.ports.store.jobs import JobTitle
from autopilot.pricing.pressure import Verdict, measure_pressure

Json = dict[str, Any]
NO_TASKS = TaskCounts()
NO_TITLES: Mapping[str, JobTitle] = {}


def forecast(known: JobForecast | None) -> Json | None:
    if known is None:
        return None
    return {each.name: plain(getattr(known, each.name)) for each in fields(known) if each.name != "job_id"}


def checkpoint_state(checkpoint: Checkpoint) -> str:
    if checkpoint.is_set_aside:
        return "set_aside"
    return "suspect" if checkpoint.is_suspect else "safe"


def job(
    state: Job,
    now: datetime,
    params: Params,
    money: Money,
    waits: Wait | None = None,
    titles: Mapping[str, JobTitle] = NO_TITLES,
    counts: TaskCounts = NO_TASKS,
) -> Json:
    """``titles``: of the jobs that it waits for, by id; ``counts``: of an array, its tasks by state."""
    pressure = measure_pressure(state, now, params)
    judged = not state.status.is_final and not state.is_array  # of the whole no single machine's pressure tells
    checkpoint = state.checkpoint
    return {
        "id": state.id,
        "name": state.spec.name,
        "array": state.array_id,
        "task": state.task,
        "tasks": None if state.spec.array is None else _tasks(state.spec.array, counts),
        "status": state.status,
        "reason": state.reason,
        "submitted_at": plain(state.submitted_at),
        "owner": state.owner,
        "code": code(state.code),
        "finished_at": plain(state.finished_at),
        "deadline": plain(state.spec.deadline),
        "due_within_s": plain(state.spec.due_within),
        "schedule": state.schedule_id,
        "due_at": plain(state.due_at),
        "after": [_predecessor(each, titles) for each in state.spec.after],
        "slack_s": plain(pressure.slack) if judged else None,
        "verdict": _verdict(pressure.verdict, waits) if judged else None,
        "progress": plain(state.progress),
        "step": state.step,
        "work_done_s": plain(state.work_done),
        "estimate_s": plain(state.spec.work_estimate),
        **amounts(money),
        "is_estimate": state.is_estimate,
        "budget": plain(state.spec.budget),
        "run_epoch": state.run_epoch,
        "failures": state.failures,
        "exit_code": state.exit_code,
        "checkpoint": checkpoint
        and {
            "number": checkpoint.number,
            "step": checkpoint.step,
            "lease_id": checkpoint.lease_id,
            "run_epoch": checkpoint.run_epoch,
            "state": checkpoint_state(checkpoint),
            "part_count": checkpoint.part_count,
            "verified_at": plain(checkpoint.verified_at),
        },
        "main": lease(state.main) if state.main else None,
        "next": lease(state.next) if state.next else None,
        "held_until": plain(state.on_hold.held_until) if state.on_hold else None,
        "failed_start": _failed_start(state),
        "waiting": _wait_for_jobs(state, titles, now)
        or _with_followed(wait(waits) if waits else None, state, titles, now),
    }


def _verdict(verdict: Verdict | None, waits: Wait | None) -> Verdict | None:
    """Time alone is not enough: what waits for an offer that does not exist is not on track."""
    return Verdict.TIGHT if verdict is Verdict.FINE and waits is not None and waits.has_no_offer else verdict


def _failed_start(state: Job) -> Json | None:
    """The newest machine in a row that came to nothing."""
    if not state.failed_starts:
        return None
    start = state.failed_starts[-1]
    return {
        "lease_id": start.lease_id,
        "fault": start.fault,
        "cause": start.cause,
        "remedy": fault_of(start.fault).remedy,
        "message": start.words,
        "at": plain(start.at),
    }


def _tasks(array: ArraySpec, counts: TaskCounts) -> Json:
    told = ("waiting", "running", "parked", "ending", "succeeded", "failed", "cancelled")
    return {
        "count": array.count,
        "needed": array.needed,
        "parallel": array.parallel,
        "max_failures": array.max_failures,
        "unbegun": array.count - counts.begun,
        **{name: getattr(counts, name) for name in told},
    }


def _predecessor(after: After, titles: Mapping[str, JobTitle]) -> Json:
    title = titles.get(after.job)
    return {
        "job": after.job,
        "name": title.name if title else None,
        "on": after.on,
        "status": title.status if title else None,
    }


def _with_followed(waiting: Json | None, state: Job, titles: Mapping[str, JobTitle], now: datetime) -> Json | None:
    """``waiting``, preceded by the open arrays that an array follows task by task."""
    followed = [each for each in state.spec.after if each.on is On.SAME_TASK]
    if not (followed and state.status.wants_capacity):
        return waiting
    notes = _still_open(followed, titles)
    known = waiting or {"at": plain(now), "vetoes": [], "notes": []}
    return {**known, "notes": [*notes, *known["notes"]]} if notes else waiting


def _wait_for_jobs(state: Job, titles: Mapping[str, JobTitle], now: datetime) -> Json | None:
    """For a job that waits for others: those that have not ended."""
    if not (state.waits_for_jobs and state.status.wants_capacity):
        return None
    return {"at": plain(now), "vetoes": [], "notes": _still_open(waited_for(state.spec.after), titles)}


def _still_open(after: Sequence[After], titles: Mapping[str, JobTitle]) -> list[Json]:
    said = [_predecessor(each, titles) for each in after]
    still = [each for each in said if each["status"] is None or not each["status"].is_final]
    return [{"topic": "after", "numbers": each} for each in still]


def code(taken: JobCode) -> Json | None:
    """The copy of the user's code that a job runs; None if it has none."""
    if not taken.sha256:
        return None
    return {
        "sha256": taken.sha256,
        "files": taken.files,
        "size_bytes": taken.size_bytes,
        "commit": taken.commit or None,
        "is_dirty": taken.is_dirty,
    }


def amounts(money: Money) -> Json:
    """What limits count, in three parts."""
    return {"posted": plain(money.posted), "accrued": plain(money.accrued), "held": plain(money.held)}


def lease(held: Lease) -> Json:
    return {
        "id": held.id,
        "slot": held.slot,
        "state": held.state,
        "status": held.observed.status,
        "provider": held.provider,
        "instance_id": held.instance_id,
        "machine_id": held.machine_id,
        "gpu": held.gpu,
        "num_gpus": held.num_gpus,
        "capacity_type": held.capacity_type,
        "bid": plain(held.bid),
        "storage_rate": plain(held.storage_rate),
        "floor": None,
        "on_demand_price": plain(held.on_demand_price),
        "reason": held.reason,
        "pause_cause": held.observed.pause_cause,
        "intended_at": plain(held.intended_at),
        "running_since": plain(held.observed.running_since),
        "gone_at": plain(held.ending.gone_at),
        "settled_at": plain(held.billing.settled_at),
        "agent_state": held.agent.state,
        "stalled_since": plain(held.agent.stalled_since),
        "readings": held.agent.readings and newest_readings(held.agent.readings, held.agent.seen_at),
        "role": held.orders.role,
        "label": held.label,
    }


def newest_readings(taken: Readings, at: datetime | None) -> Json:
    """Without the check on arrival, of which an event tells."""
    return {"at": plain(at), **{name: value for name, value in asdict(taken).items() if name != "arrival"}}


def reading(taken: MachineReading) -> Json:
    """One point of a machine's history."""
    return {"at": plain(taken.at)} | {
        field.name: getattr(taken, field.name) for field in fields(taken) if field.name not in ("at", "lease_id")
    }


def on_demand_equivalent(leases: Iterable[Lease], now: datetime) -> Decimal | None:
    """What the same running hours on the same machines would have cost on demand; None when a price is not known."""
    total = ZERO
    for held in leases:
        running = time_running(held, now)
        if not running:
            continue
        if held.on_demand_price is None:
            return None
        total += accrue(held.on_demand_price, running)
    return total


def event(record: EventRecord) -> Json:
    return {
        "seq": record.seq,
        "at": plain(record.at),
        "name": record.name,
        "job_id": record.job_id,
        "lease_id": record.lease_id,
        "fields": {name: plain(value) for name, value in record.fields},
    }


def bid(record: BidRecord) -> Json:
    return {
        "lease_id": record.lease_id,
        "at": plain(record.at),
        "bid": plain(record.bid),
        "outcome": record.outcome,
        "decision_id": record.decision_id,
    }


def decision(record: DecisionRecord) -> Json:
    return {
        "id": record.id,
        "at": plain(record.at),
        "actions": [note(n) for n in record.actions],
        "vetoes": [note(n) for n in record.vetoes],
        "notes": [note(n) for n in record.notes],
    }


def wait(current: Wait) -> Json:
    return {
        "at": plain(current.at),
        "vetoes": [note(n) for n in current.vetoes],
        "notes": [note(n) for n in current.notes],
    }


def note(note: Note) -> Json:
    return {"topic": note.topic, "numbers": {name: plain(value) for name, value in note.numbers}}


def offer(offered: Offer, state: Job | None, disk_gb: Decimal) -> Json:
    problem = why_not(state.spec, offered) if state else None
    return {
        "provider": offered.provider,
        "machine_id": offered.machine_id,
        "gpu": offered.gpu,
        "num_gpus": offered.num_gpus,
        "floor": plain(offered.floor),
        "on_demand_price": plain(offered.on_demand_price),
        "storage_rate": plain(offered.storage_rate(disk_gb)),
        "reliability": plain(offered.reliability),
        "location": offered.location,
        "eligible": problem is None,
        "why_not": problem,
    }
