"""From actions to intents: what a decision changes in the books, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from autopilot.domain import events as e
from autopilot.domain.actions import (
    Acquire,
    Action,
    ChangeBid,
    Hold,
    Note,
    Promote,
    Release,
    RunAgain,
    SaveAndStop,
    SetStatus,
    Start,
    Stop,
    Veto,
)
from autopilot.domain.job import Job
from autopilot.domain.labels import label_for
from autopilot.domain.lease import Billing, Lease, LeaseOrders, LeaseState, Role, Slot, Traffic
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.budget import disk_tail, start_reserve, unwatched_time
from autopilot.ports.ids import Ids
from autopilot.pricing.traffic import largest_upload_gb, received_gb

GRACE_AFTER_DEADLINE = timedelta(hours=2)
LONGEST_LIFE = timedelta(hours=72)


def intended_lease(
    job: Job, action: Acquire, decision_id: str, install_id: str, ids: Ids, now: datetime, params: Params
) -> Lease:
    """The lease that an Acquire asks for: unique label, worst-case reserve, absolute lifetime."""
    offer, spec = action.offer, job.spec
    storage_rate = offer.storage_rate(spec.disk_gb)
    lease_id = ids.new()
    ends = [now + LONGEST_LIFE]
    if spec.deadline is not None and now < spec.deadline < now + LONGEST_LIFE:
        ends.append(spec.deadline + GRACE_AFTER_DEADLINE)
    if offer.ends_at is not None:
        ends.append(offer.ends_at)
    return Lease(
        id=lease_id,
        job_id=job.id,
        slot=action.slot,
        state=LeaseState.INTENT,
        provider=offer.provider,
        label=label_for(install_id, lease_id),
        capacity_type=action.capacity_type,
        offer_id=offer.offer_id,
        machine_id=offer.machine_id,
        host_id=offer.host_id,
        gpu=offer.gpu,
        num_gpus=offer.num_gpus,
        disk_gb=spec.disk_gb,
        ram_gb=offer.host.ram_gb,
        bid=action.bid,
        storage_rate=storage_rate,
        on_demand_price=offer.on_demand_price,
        intended_at=now,
        not_after=min(ends),
        reason=action.reason,
        decision_id=decision_id,
        billing=Billing(
            start_reserve(job, offer, action.bid, params),
            tail=disk_tail(job, action.bid + storage_rate, params, offer.dead_man),
            unwatched=unwatched_time(offer.dead_man, params),
        ),
        orders=LeaseOrders(Role.WAIT if action.slot is Slot.NEXT else Role.RUN),
        traffic=Traffic(
            offer.upload_price, offer.download_price, received_gb(job, params), largest_upload_gb(job, params)
        ),
    )


def action_events(actions: tuple[Action, ...], now: datetime) -> Iterator[e.Event]:
    """Events for all actions but Acquire, in an order that never leaves two leases in one slot."""
    yield from (
        e.ReleaseRequested(action.lease_id, action.reason, now) for action in actions if isinstance(action, Release)
    )
    for action in actions:
        match action:
            case ChangeBid(lease_id, bid, _):
                yield e.BidIntended(lease_id, bid, now)
            case Start(lease_id, _):
                yield e.StartIntended(lease_id, now)
            case SaveAndStop(lease_id, reason):
                yield e.StopOrdered(lease_id, reason, now)
            case Promote(lease_id, reason):
                yield e.LeasePromoted(lease_id, reason, now)
            case RunAgain(lease_id, reason):
                yield e.RunOrdered(lease_id, reason, now)
            case Hold(lease_id, until, reason):
                yield e.HoldBegun(lease_id, until, now, is_proof=reason is Reason.PROVING)
            case SetStatus(status, reason, numbers):
                yield e.StatusSet(status, reason, now, numbers)
            case _:
                pass


_TOPICS: Mapping[type[Action], str] = {
    Start: "start",
    Stop: "stop",
    SaveAndStop: "save_and_stop",
    Promote: "promote",
    RunAgain: "run_again",
    Release: "release",
}
"""Actions that have a machine and a reason, and nothing else."""


def action_note(action: Action) -> Note:
    """An action as a line of the decision's record."""
    match action:
        case Acquire(slot, offer, capacity_type, bid, reason):
            return Note(
                "acquire",
                (
                    ("reason", reason),
                    ("slot", slot),
                    ("provider", offer.provider),
                    ("machine_id", offer.machine_id),
                    ("capacity_type", capacity_type),
                    ("bid", bid),
                    ("floor", offer.floor),
                    ("on_demand_price", offer.on_demand_price),
                ),
            )
        case ChangeBid(lease_id, bid, reason):
            return Note("change_bid", (("reason", reason), ("lease_id", lease_id), ("bid", bid)))
        case SetStatus(status, reason, _):
            return Note("set_status", (("reason", reason), ("status", status)))
        case Hold(lease_id, until, reason):
            return Note("hold", (("reason", reason), ("lease_id", lease_id), ("until", until.isoformat())))
        case Start() | Stop() | SaveAndStop() | Promote() | RunAgain() | Release():
            return Note(_TOPICS[type(action)], (("reason", action.reason), ("lease_id", action.lease_id)))


def veto_note(veto: Veto) -> Note:
    asked = action_note(veto.action)
    return Note("veto", (("action", asked.topic), ("because", veto.reason), *veto.numbers))
