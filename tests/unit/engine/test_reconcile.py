"""What a list says of a lease: absent once is not gone, an unknown market says nothing, no create is repeated."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.domain import events as e
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import Instance
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import StopEvidence
from autopilot.engine.observe import Reading
from autopilot.engine.reconcile import LISTS_TO_ABANDON, SETTLE, failed_starts, find_unaccounted, lease_events
from tests.builders import D, a_job, a_lease, a_paused_lease, a_reading, an_instance, an_intent, at
from tests.leases import change_lease

LEASE = a_lease(instance_id="77")
INTENT = an_intent(create_unknown=True)
GONE_ID = frozenset({"77"})


def told(lease: Lease, reading: Reading, busy: frozenset[str] = frozenset(), now: float = 0) -> list[e.Event]:
    return list(lease_events(lease, reading, busy, at(now)))


def names(events: list[e.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_an_instance_that_is_shown_is_observed() -> None:
    reading = a_reading(an_instance(a_lease("x")), an_instance(LEASE), begun_at=at(60), credit=D(5))
    assert told(LEASE, reading, now=61) == [e.LeaseObserved("lease-1", an_instance(LEASE), at(61))]
    empty = a_reading(an_instance(LEASE), begun_at=at(60), credit=D(0))
    assert told(LEASE, empty, now=61) == [e.LeaseObserved("lease-1", an_instance(LEASE), at(61), StopEvidence(True))]


@pytest.mark.parametrize("lease", [LEASE, an_intent(create_unknown=True), a_lease(state=LeaseState.DESTROY_SENT)])
def test_an_unknown_market_says_nothing(lease: Lease) -> None:
    reading = a_reading(begun_at=at(10_000), instances=None, absent=GONE_ID, confirmed_gone=GONE_ID)
    assert told(lease, reading, now=10_000) == []


@pytest.mark.parametrize("lease", [LEASE, an_intent(create_unknown=True)])
def test_a_lease_with_a_call_on_its_way_is_left_alone(lease: Lease) -> None:
    for reading in (a_reading(begun_at=at(10_000), absent=GONE_ID), a_reading(an_instance(lease), begun_at=at(10_000))):
        assert told(lease, reading, frozenset({lease.id}), 10_000) == []


@pytest.mark.parametrize("state", [LeaseState.GONE, LeaseState.ABANDONED])
def test_a_lease_that_is_over_is_left_alone(state: LeaseState) -> None:
    over = a_lease(state=state, instance_id="77")
    assert told(over, a_reading(an_instance(over), begun_at=at(60))) == []


def lists(*begun: float, confirmed: tuple[float, ...] = ()) -> tuple[Lease, list[str]]:
    """Complete lists without the instance, begun at these seconds; a single read confirms the loss at some of them."""
    lease, seen = LEASE, []
    for when in begun:
        proof = GONE_ID if when in confirmed else frozenset()
        for event in told(lease, a_reading(begun_at=at(when), absent=GONE_ID, confirmed_gone=proof), now=when + 1):
            seen.append(type(event).__name__)
            lease = evolve_lease(lease, event)
    return lease, seen


@pytest.mark.parametrize(
    ("begun", "confirmed", "gone"),
    [
        pytest.param((100,), (100,), False, id="absent once is not gone, even if a single read says so"),
        pytest.param((100, 119), (100, 119), False, id="two lists close together are one"),
        pytest.param((100, 105, 110, 115), (100, 105, 110, 115), False, id="nor do many make two"),
        pytest.param((100, 120), (), False, id="two lists without a single read"),
        pytest.param((100, 120), (100,), False, id="a single read before the second list"),
        pytest.param((100, 120), (120,), True, id="two lists and a single read after them"),
        pytest.param((100, 110, 120), (120,), True, id="with one in between"),
        pytest.param((100, 120, 140), (140,), True, id="a single read that came late"),
    ],
)
def test_gone_takes_two_lists_far_apart_and_a_single_read(
    begun: tuple[float, ...], confirmed: tuple[float, ...], gone: bool
) -> None:
    lease, seen = lists(*begun, confirmed=confirmed)
    assert (lease.state is LeaseState.GONE) == gone
    assert seen.count("LeaseGone") == gone
    if gone:
        assert lease.ending.gone_at == at(begun[-1])


def test_absences_are_counted_in_a_row() -> None:
    lease, _ = lists(100)
    for event in told(lease, a_reading(an_instance(lease), begun_at=at(130)), now=131):
        lease = evolve_lease(lease, event)
    again = told(lease, a_reading(begun_at=at(160), absent=GONE_ID, confirmed_gone=GONE_ID), now=161)
    assert names(again) == ["LeaseAbsent"]


def test_a_machine_under_another_label_is_given_up_once_a_single_read_shows_it_too() -> None:
    listed = a_reading(replace(an_instance(LEASE), label="my-own-machine"), begun_at=at(100), absent=GONE_ID)
    for reading, events in (
        (listed, ["LeaseAbsent"]),
        (replace(listed, confirmed_gone=GONE_ID), ["LeaseAbsent"]),  # the single read knows of none: they disagree
        (replace(listed, confirmed_gone=GONE_ID, taken_over=GONE_ID), ["LeaseAbsent", "LeaseGone"]),
    ):
        assert names(told(LEASE, reading, now=101)) == events
    assert told(LEASE, reading, now=101)[-1] == e.LeaseGone(LEASE.id, at(100), taken_over=True)


def test_absences_from_before_it_was_found_again_do_not_count() -> None:
    gone = a_lease(state=LeaseState.GONE, instance_id="77", absences=2, absent_at=at(100))
    found = evolve_lease(gone, e.InstanceFound(gone.id, "77", at(500)))
    reading = a_reading(begun_at=at(530), absent=GONE_ID, confirmed_gone=GONE_ID)
    assert names(told(found, reading, now=531)) == ["LeaseAbsent"]


def test_an_instance_too_young_to_be_listed_is_not_absent() -> None:
    assert told(LEASE, a_reading(begun_at=at(30))) == []


def test_a_list_begun_before_the_destroy_does_not_say_that_it_was_ignored() -> None:
    lease = a_lease(state=LeaseState.DESTROY_SENT, destroy_sent_at=at(60), instance_id="77")
    assert told(lease, a_reading(an_instance(lease), begun_at=at(60)), now=61) == []
    assert names(told(lease, a_reading(an_instance(lease), begun_at=at(61)), now=62)) == ["LeaseObserved"]


def test_a_list_begun_before_the_raise_does_not_bring_back_the_old_bid() -> None:
    lease = a_lease(bid_changed_at=at(60), bid=D("0.400"))
    assert told(lease, a_reading(an_instance(lease, bid=D("0.300")), begun_at=at(59)), now=61) == []


def test_a_start_that_failed_is_given_back_unless_its_agent_was_heard_or_a_call_is_on_its_way() -> None:
    stuck = a_paused_lease(pause_cause=Reason.STUCK_LOADING, agent_boot=0)
    assert list(failed_starts(a_job(stuck), ())) == [stuck]
    assert list(failed_starts(a_job(stuck), (stuck.id,))) == []
    for other in (
        a_paused_lease(agent_boot=0),
        change_lease(stuck, agent_boot=1),
        replace(stuck, state=LeaseState.DESTROY_REQUESTED),
    ):
        assert list(failed_starts(a_job(other), ())) == []


def test_a_machine_on_other_terms_than_ordered_is_given_back() -> None:
    wrong = an_instance(LEASE, capacity_type=CapacityType.ON_DEMAND)
    assert told(LEASE, a_reading(wrong, begun_at=at(60)), now=61)[1:] == [
        e.ReleaseRequested("lease-1", Reason.WRONG_TERMS, at(61))
    ]
    leaving = a_lease(state=LeaseState.DESTROY_REQUESTED, instance_id="77")
    assert names(told(leaving, a_reading(wrong, begun_at=at(60)), now=61)) == ["LeaseObserved"]


def test_an_adopted_machine_that_differs_from_its_order_is_released() -> None:
    found = told(INTENT, a_reading(an_instance(INTENT, is_as_asked=False), begun_at=at(60)), now=61)
    assert names(found) == ["LeaseAcquired", "LeaseObserved", "ReleaseRequested"]
    # One that was looked at when it was made is not given back for what a list leaves out.
    assert names(told(LEASE, a_reading(an_instance(LEASE, is_as_asked=False), begun_at=at(60)), now=61)) == [
        "LeaseObserved"
    ]


@pytest.mark.parametrize(("rate", "kept"), [("0.300", True), ("0.301", True), ("0.302", False), ("0.200", True)])
def test_a_machine_dearer_than_its_order_is_given_back(rate: str, kept: bool) -> None:
    reading = a_reading(an_instance(LEASE, bid=D(rate)), begun_at=at(60))
    assert names(told(LEASE, reading, now=61)) == ["LeaseObserved", "ReleaseRequested"][: 2 - kept]
    adopted = names(told(INTENT, a_reading(an_instance(INTENT, bid=D(rate)), begun_at=at(60)), now=61))
    assert adopted == ["LeaseAcquired", "LeaseObserved", "ReleaseRequested"][: 3 - kept]


@pytest.mark.parametrize("bid", ["0.330", "0.200"])
def test_another_bid_that_shows_late_is_no_breach_of_terms(bid: str) -> None:
    lease = evolve_lease(a_lease(), e.BidIntended("lease-1", D(bid), at(0)))
    lease = evolve_lease(lease, e.BidChanged("lease-1", D(bid), at(1)))
    for when, rate in ((30, "0.300"), (60, bid)):
        events = told(lease, a_reading(an_instance(lease, bid=D(rate)), begun_at=at(when)), now=when)
        assert names(events) == ["LeaseObserved"]
        lease = evolve_lease(lease, events[0])


# Creates of unknown outcome.


@pytest.mark.parametrize(
    ("ids", "adopted"),
    [(("900", "1000"), "900"), (("1000", "900"), "900"), (("31", "30", "32"), "30"), (("b7", "a7"), "a7")],
)
def test_of_several_instances_with_its_label_the_oldest_is_adopted(ids: tuple[str, ...], adopted: str) -> None:
    found = [an_instance(INTENT, instance_id=instance_id) for instance_id in ids]
    first, second = told(INTENT, a_reading(*found, begun_at=at(30)), now=31)
    assert first == e.LeaseAcquired("lease-1", adopted, at(31), adopted=True)
    assert isinstance(second, e.LeaseObserved)
    assert second.instance.instance_id == adopted


def test_another_label_is_not_adopted() -> None:
    stranger = an_instance(INTENT, label="ap1.install1.lease-9")
    assert names(told(INTENT, a_reading(stranger, begun_at=at(30)), now=31)) == ["LeaseMissed"]


def test_a_list_begun_before_the_intent_proves_nothing() -> None:
    assert told(INTENT, a_reading(begun_at=INTENT.intended_at), now=1) == []


def abandoned_at(*begun: float) -> float | None:
    lease = INTENT
    for when in begun:
        for event in told(lease, a_reading(begun_at=at(when)), now=when):
            lease = evolve_lease(lease, event)
            if isinstance(event, e.LeaseAbandoned):
                assert event.reason is Reason.NEVER_APPEARED
                return when
    return None


def test_a_create_is_given_up_after_the_settle_window_and_enough_lists() -> None:
    window = SETTLE.total_seconds()
    assert abandoned_at(*(10 * n for n in range(1, 30))) is None, "many lists, too early"
    assert abandoned_at(10, 20, window) == window
    assert abandoned_at(window, window + 5) is None, "late, too few lists"
    assert abandoned_at(window, window + 5, window + 10) == window + 10
    assert LISTS_TO_ABANDON == 3


def test_a_create_that_shows_up_at_the_last_moment_is_adopted_not_abandoned() -> None:
    lease = an_intent(create_unknown=True, lists_since_intent=10)
    reading = a_reading(an_instance(lease), begun_at=lease.intended_at + SETTLE + timedelta(minutes=1))
    assert names(told(lease, reading, now=400)) == ["LeaseAcquired", "LeaseObserved"]


def test_reading_the_same_list_again_changes_nothing_more() -> None:
    """Recovered twice is recovered once."""
    lease, reading = LEASE, a_reading(an_instance(LEASE), begun_at=at(60))
    once = [evolve_lease(lease, event) for event in told(lease, reading, now=61)][-1]
    twice = [evolve_lease(once, event) for event in told(once, reading, now=61)][-1]
    assert once == twice


# Instances that no live lease accounts for.


@pytest.mark.parametrize(
    ("leases", "holder", "found"),
    [
        pytest.param([a_lease(instance_id="77")], None, False, id="held"),
        pytest.param([a_lease(state=LeaseState.DESTROY_SENT, instance_id="77")], None, False, id="on its way out"),
        pytest.param([an_intent()], None, False, id="an open create may adopt it"),
        pytest.param([], None, True, id="no lease of that label"),
        pytest.param([a_lease(state=LeaseState.GONE, instance_id="77")], 0, True, id="thought gone"),
        pytest.param([an_intent(state=LeaseState.ABANDONED)], 0, True, id="landed late"),
        pytest.param([a_lease(instance_id="76")], 0, True, id="a duplicate of one create"),
        pytest.param(
            [a_lease(instance_id="76"), a_lease("duplicate", instance_id="77", state=LeaseState.DESTROY_SENT)],
            None,
            False,
            id="a duplicate already taken in",
        ),
    ],
)
def test_what_no_live_lease_holds_is_unaccounted(leases: list[Lease], holder: int | None, found: bool) -> None:
    instance: Instance = an_instance(an_intent(), instance_id="77")
    expected = [(instance, None if holder is None else leases[holder])] if found else []
    assert list(find_unaccounted([instance], {instance.label: leases} if leases else {})) == expected


def test_another_label_means_another_owner_under_any_id() -> None:
    sent = a_lease(state=LeaseState.DESTROY_SENT, instance_id="77", destroy_sent_at=at(0))
    anothers = replace(an_instance(sent), label="somebody-elses")
    assert told(sent, a_reading(anothers, begun_at=at(60)), now=61) == []
    assert names(told(sent, a_reading(anothers, begun_at=at(60), absent=GONE_ID), now=61)) == ["LeaseAbsent"]


def test_a_market_that_shows_no_labels_takes_no_machine_from_us() -> None:
    held = a_lease(instance_id="77")
    assert names(told(held, a_reading(replace(an_instance(held), label=""), begun_at=at(60)), now=61)) == [
        "LeaseObserved"
    ]
