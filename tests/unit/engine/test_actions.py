"""From actions to intents: labels, reserves, lifetimes, and the order in which events apply."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import (
    Acquire,
    Action,
    ChangeBid,
    Promote,
    Release,
    SaveAndStop,
    SetStatus,
    Start,
    Veto,
)
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import action_events, action_note, intended_lease, veto_note
from autopilot.policy.budget import start_reserve
from tests.builders import HOUR, START, D, a_job, a_lease, a_new_home, a_spec, an_offer, at, play

OFFER = an_offer()
SPOT = Acquire(Slot.MAIN, OFFER, CapacityType.SPOT, D("0.230"), Reason.CHEAPEST)
RELEASE, PROMOTE = Release("lease-1", Reason.MOVING), Promote("lease-2", Reason.PROMOTED)


class CountedIds:
    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        self.given += 1
        return f"id-{self.given}"


def intended(action: Acquire = SPOT, job: Job | None = None, now: datetime = START) -> Lease:
    return intended_lease(job or a_job(), action, "job-1-7", "install1", CountedIds(), now, Params())


def test_an_intent_records_all_that_its_create_will_ask_for() -> None:
    lease = intended()
    assert (lease.id, lease.job_id, lease.label, lease.decision_id) == ("id-1", "job-1", "ap1.install1.id-1", "job-1-7")
    assert (lease.state, lease.instance_id, lease.slot, lease.orders.role) == (
        LeaseState.INTENT,
        None,
        Slot.MAIN,
        Role.RUN,
    )
    assert (lease.bid, lease.disk_gb, lease.storage_rate) == (D("0.230"), D(20), OFFER.storage_rate(D(20)))
    assert lease.billing.reserved == start_reserve(a_job(), OFFER, D("0.230"), Params())
    assert lease.billing.tail == a_job().spec.work_estimate
    assert (lease.offer_id, lease.machine_id, lease.on_demand_price) == (OFFER.offer_id, "machine-a", D("0.600"))


def test_each_create_has_a_label_of_its_own() -> None:
    ids = CountedIds()
    labels = {intended_lease(a_job(), SPOT, "d", "i", ids, START, Params()).label for _ in range(3)}
    assert len(labels) == 3


def test_a_new_home_waits() -> None:
    lease = intended(Acquire(Slot.NEXT, OFFER, CapacityType.SPOT, D("0.2"), Reason.DEADLINE))
    assert (lease.slot, lease.orders.role) == (Slot.NEXT, Role.WAIT)


@pytest.mark.parametrize(
    ("deadline", "ends_at", "hours"),
    [
        (None, None, 72),
        (10, None, 12),
        (71, None, 72),
        (100, None, 72),
        (-5, None, 72),  # missed already: it no longer bounds anything
        (None, 30, 30),
        (10, 30, 12),
        (10, 5, 5),
    ],
)
def test_every_lease_has_an_absolute_end(deadline: float | None, ends_at: float | None, hours: float) -> None:
    job = a_job(spec=a_spec(deadline=None if deadline is None else START + deadline * HOUR))
    offer = an_offer(ends_at=None if ends_at is None else START + ends_at * HOUR)
    lease = intended(Acquire(Slot.MAIN, offer, CapacityType.SPOT, D("0.2"), Reason.CHEAPEST), job)
    assert lease.not_after == START + timedelta(hours=hours)


def test_releases_come_first_so_that_no_slot_is_held_twice() -> None:
    events = list(action_events((PROMOTE, RELEASE), at(9)))
    assert events == [
        e.ReleaseRequested("lease-1", Reason.MOVING, at(9)),
        e.LeasePromoted("lease-2", Reason.PROMOTED, at(9)),
    ]
    play(a_job(a_lease(), a_new_home()), *events)


@pytest.mark.parametrize(
    ("action", "events"),
    [
        (SPOT, []),
        (RELEASE, [e.ReleaseRequested("lease-1", Reason.MOVING, START)]),
        (ChangeBid("lease-1", D("0.36"), Reason.OUTBID), [e.BidIntended("lease-1", D("0.36"), START)]),
        (Start("lease-1", Reason.PAID_IN), [e.StartIntended("lease-1", START)]),
        (SaveAndStop("lease-1", Reason.MOVING), [e.StopOrdered("lease-1", Reason.MOVING, START)]),
        (PROMOTE, [e.LeasePromoted("lease-2", Reason.PROMOTED, START)]),
        (
            SetStatus(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED),
            [e.StatusSet(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED, START)],
        ),
    ],
)
def test_each_action_has_its_event_and_its_note(action: Action, events: list[e.Event]) -> None:
    assert list(action_events((action,), START)) == events
    note = action_note(action)
    assert dict(note.numbers)["reason"] == action.reason
    veto = veto_note(Veto(action, Reason.OVER_BUDGET, (("budget", D(5)),)))
    assert dict(veto.numbers) == {"action": note.topic, "because": Reason.OVER_BUDGET, "budget": D(5)}
