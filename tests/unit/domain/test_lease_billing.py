"""Spans: what bills when, from the intent to the destroy, and what that costs per day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from autopilot.domain import events as e
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease, LeaseState, Role, cost_by_day, time_running
from autopilot.domain.reasons import Reason
from tests.builders import HOUR, MINUTE, START, D, a_lease, a_paused_lease, an_intent, at, heartbeat, seen

RUNNING, STOPPED = InstanceStatus.RUNNING, InstanceStatus.STOPPED
PROVISIONING, OFFLINE = InstanceStatus.PROVISIONING, InstanceStatus.OFFLINE


def lived(lease: Lease, *events: e.Event) -> Lease:
    for event in events:
        lease = evolve_lease(lease, event)
    return lease


def bill(lease: Lease) -> list[tuple[InstanceStatus, Decimal, Decimal, int, int | None]]:
    """Status, rates, start and end in seconds after START, of each span."""

    def seconds(instant: datetime | None) -> int | None:
        return None if instant is None else round((instant - START).total_seconds())

    return [
        (s.status, s.billed_rate, s.storage_rate, seconds(s.started_at) or 0, seconds(s.ended_at)) for s in lease.spans
    ]


def test_a_life_with_a_pause_a_raise_and_a_destroy_bills_each_stretch_at_its_own_rate() -> None:
    lease = an_intent()
    lease = lived(lease, e.LeaseAcquired(lease.id, "77", at(5)))
    lease = lived(
        lease,
        seen(lease, PROVISIONING, at(30)),
        seen(lease, RUNNING, at(60)),
        seen(lease, RUNNING, at(90)),
        seen(lease, STOPPED, at(120)),
        e.BidIntended(lease.id, D("0.360"), at(130)),
        e.BidChanged(lease.id, D("0.360"), at(131)),
    )
    lease = lived(
        lease,
        seen(lease, RUNNING, at(150), bid=D("0.360")),
        e.ReleaseRequested(lease.id, Reason.MOVING, at(200)),
        e.DestroySent(lease.id, True, at(201)),
    )
    disk = D("0.004")
    assert bill(lease) == [
        (PROVISIONING, D(0), disk, 0, 30),  # from the intent on: when the market began to bill is unknown
        (PROVISIONING, D("0.300"), disk, 30, 60),  # it may have started right after it was last seen loading
        (RUNNING, D("0.300"), disk, 60, 120),
        (STOPPED, D(0), disk, 120, 120),
        (STOPPED, D("0.360"), disk, 120, 150),
        (RUNNING, D("0.360"), disk, 150, 201),
    ]


def test_a_raise_while_it_runs_bills_at_the_higher_bid_from_the_moment_of_the_intent() -> None:
    lease = a_lease()
    raised = lived(lease, e.BidIntended(lease.id, D("0.400"), at(60)))
    assert (raised.bid, raised.bidding.raises) == (D("0.400"), 1)
    assert bill(raised)[-1] == (RUNNING, D("0.400"), D("0.004"), 60, None)
    refused = lived(raised, e.BidRefused(lease.id, D("0.300"), at(70)))
    assert (refused.bid, refused.bidding.raises) == (D("0.300"), 0)
    assert bill(refused)[-1] == (RUNNING, D("0.300"), D("0.004"), 70, None)


def test_a_lower_bid_bills_at_the_higher_one_until_the_market_took_it() -> None:
    lease = a_lease()
    lowered = lived(lease, e.BidIntended(lease.id, D("0.200"), at(60)))
    assert lowered.bid == D("0.300")
    assert lowered.bidding.raises == 0
    taken = lived(lowered, e.BidChanged(lease.id, D("0.200"), at(61)))
    assert taken.bid == D("0.200")
    assert bill(taken)[-1] == (RUNNING, D("0.200"), D("0.004"), 61, None)


def test_the_market_has_the_last_word_on_a_bid_whose_call_was_never_answered() -> None:
    lease = a_lease()
    lease = lived(lease, e.BidIntended(lease.id, D("0.400"), at(60)))
    lease = lived(lease, seen(lease, RUNNING, at(90), bid=D("0.300")))
    assert lease.bid == D("0.300")
    assert bill(lease)[-1] == (RUNNING, D("0.300"), D("0.004"), 90, None)


def test_a_host_that_does_not_answer_bills_nothing() -> None:
    lease = a_lease()
    lease = lived(lease, *(seen(lease, OFFLINE, at(seconds)) for seconds in range(60, 3660, 60)))
    lease = lived(lease, seen(lease, RUNNING, at(3660)))
    costs = cost_by_day(lease, at(3720))
    assert costs == {
        (CostKind.COMPUTE, START.date()): D("0.3") * 180 / 3600,
        (CostKind.STORAGE_RUNNING, START.date()): (D("0.004") * 60 / 3600).quantize(D("1e-9")) * 2,
    }


def test_a_machine_unobserved_for_long_is_assumed_to_have_run_until_the_bill_is_in() -> None:
    lease = a_paused_lease()
    hidden = timedelta(hours=2)
    watched = lived(lease, *(seen(lease, STOPPED, START + n * MINUTE) for n in range(1, 121)))
    assert cost_by_day(watched, START + hidden) == {(CostKind.STORAGE_STOPPED, START.date()): D("0.008")}
    for back in (seen(lease, STOPPED, START + hidden), e.LeaseAbsent(lease.id, START + hidden)):
        costs = cost_by_day(lived(lease, back), START + hidden)
        assert costs == {
            (CostKind.COMPUTE, START.date()): D("0.6"),
            (CostKind.STORAGE_STOPPED, START.date()): D("0.008"),
        }


def test_a_machine_that_is_destroyed_unobserved_is_taken_to_have_run_until_then() -> None:
    lease = lived(a_paused_lease(), seen(a_paused_lease(), STOPPED, at(60)))
    asked = lived(lease, e.ReleaseRequested(lease.id, Reason.OUTBID, at(60 + 3600)))
    refused = lived(asked, e.DestroySent(lease.id, False, at(60 + 3600)))
    assert (CostKind.COMPUTE, START.date()) not in cost_by_day(refused, at(60 + 3600)), "a list may still show it"
    gone = lived(refused, e.DestroySent(lease.id, True, at(60 + 3600)))
    assert cost_by_day(gone, at(9000))[CostKind.COMPUTE, START.date()] == D("0.3")


@pytest.mark.parametrize("asked", [(), (e.ReleaseRequested("lease-1", Reason.COMPLETED, at(50)),)])
def test_a_lease_whose_machine_was_taken_over_says_so_until_it_is_found_again(asked: tuple[e.Event, ...]) -> None:
    lease = lived(a_lease(), *asked, e.LeaseAbsent("lease-1", at(100)), e.LeaseGone("lease-1", at(100), True))
    assert (lease.state, lease.reason) == (LeaseState.GONE, Reason.TAKEN_OVER)
    found = lived(lease, e.InstanceFound("lease-1", "77", at(200)))
    assert (found.state, found.reason) == (LeaseState.DESTROY_REQUESTED, Reason.VANISHED)


def test_a_vanished_instance_bills_until_it_was_last_found_missing() -> None:
    lease = a_lease()
    lease = lived(
        lease, seen(lease, RUNNING, at(100)), e.LeaseAbsent(lease.id, at(130)), e.LeaseAbsent(lease.id, at(160))
    )
    lease = lived(lease, e.LeaseGone(lease.id, at(160)))
    assert (lease.state, lease.reason) == (LeaseState.GONE, Reason.VANISHED)
    assert bill(lease)[-1][-1] == 160


def test_a_destroy_that_the_market_ignored_bills_without_a_gap() -> None:
    lease = a_lease()
    lease = lived(lease, e.ReleaseRequested(lease.id, Reason.MOVING, at(100)), e.DestroySent(lease.id, True, at(101)))
    lease = lived(lease, seen(lease, RUNNING, at(400)))
    assert lease.state is LeaseState.DESTROY_REQUESTED
    assert time_running(lease, at(500)) == timedelta(seconds=500)


def test_a_destroy_that_was_not_accepted_goes_on_billing() -> None:
    lease = a_lease()
    lease = lived(lease, e.ReleaseRequested(lease.id, Reason.MOVING, at(100)), e.DestroySent(lease.id, False, at(101)))
    assert (lease.state, lease.ending.attempts) == (LeaseState.DESTROY_REQUESTED, 1)
    assert bill(lease)[-1][-1] is None


def test_a_refused_create_that_left_a_contract_bills_its_disk_from_the_intent() -> None:
    lease = an_intent()
    lease = lived(lease, e.LeaseRefused(lease.id, Reason.OUTBID, "bid too low", "99", at(3)))
    assert bill(lease) == [(STOPPED, D(0), D("0.004"), 0, None)]


def test_no_span_for_an_observation_that_changes_nothing() -> None:
    lease = a_lease()
    again = lived(lease, *(seen(lease, RUNNING, at(n * 30)) for n in range(1, 20)))
    assert again.spans == lease.spans


@pytest.mark.parametrize("started", [datetime(2026, 1, 31, 22, tzinfo=UTC), datetime(2028, 2, 28, 22, tzinfo=UTC)])
def test_cost_is_cut_at_midnight(started: datetime) -> None:
    lease = an_intent(intended_at=started, role=Role.RUN).bill_as(RUNNING, D("0.36"), D("0.012"), started)
    costs = cost_by_day(lease, started + 5 * HOUR)
    next_day: date = (started + 5 * HOUR).date()
    assert costs == {
        (CostKind.COMPUTE, started.date()): D("0.72"),
        (CostKind.STORAGE_RUNNING, started.date()): D("0.024"),
        (CostKind.COMPUTE, next_day): D("1.08"),
        (CostKind.STORAGE_RUNNING, next_day): D("0.036"),
    }


def test_time_running_leaves_pauses_out() -> None:
    lease = a_paused_lease()
    lease = lived(lease, seen(lease, RUNNING, at(80)), seen(lease, STOPPED, at(140)), seen(lease, RUNNING, at(200)))
    assert time_running(lease, at(230)) == timedelta(seconds=90)


def test_a_start_counts_from_the_last_sight_before_it_and_takes_nothing_of_the_disk_back() -> None:
    lease = a_paused_lease(storage_rate=D("0.010"))
    lease = lived(lease, seen(lease, STOPPED, at(30)))
    cheaper = lived(lease, seen(lease, RUNNING, at(60), storage_rate=D("0.002")))
    assert bill(cheaper)[-2:] == [
        (STOPPED, D("0.300"), D("0.010"), 30, 60),
        (RUNNING, D("0.300"), D("0.002"), 60, None),
    ]
    again = lived(cheaper, seen(cheaper, RUNNING, at(90), storage_rate=D("0.002")))
    assert bill(again) == bill(cheaper)


def test_a_machine_that_is_shown_as_loading_bills_while_its_agent_reports() -> None:
    """The list is late, or wrong. An agent that is silent for three minutes proves nothing any more."""
    lease = an_intent()
    lease = lived(lease, e.LeaseAcquired(lease.id, "77", at(5)), seen(lease, PROVISIONING, at(30)))
    lease = lived(lease, heartbeat(lease, at(45)))
    lease = lived(lease, *(seen(lease, PROVISIONING, at(60 + 15 * look)) for look in range(20)))
    disk = D("0.004")
    assert bill(lease) == [
        (PROVISIONING, D(0), disk, 0, 30),
        (PROVISIONING, D("0.300"), disk, 30, 240),
        (PROVISIONING, D(0), disk, 240, None),
    ]
