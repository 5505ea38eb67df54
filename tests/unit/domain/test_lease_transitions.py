"""The lifecycle table: every arrow can be walked, everything else raises, and no state is out of reach or a trap."""

from __future__ import annotations

from itertools import product

import pytest

from autopilot.domain.errors import InvalidTransition
from autopilot.domain.lease import LEASE_TRANSITIONS, OVER, WANTED, LeaseState
from tests.builders import an_intent

S = LeaseState

ARROWS = {
    (S.INTENT, S.ACTIVE),
    (S.INTENT, S.DESTROY_REQUESTED),
    (S.INTENT, S.ABANDONED),
    (S.ACTIVE, S.PAUSED),
    (S.ACTIVE, S.DESTROY_REQUESTED),
    (S.ACTIVE, S.GONE),
    (S.PAUSED, S.ACTIVE),
    (S.PAUSED, S.DESTROY_REQUESTED),
    (S.PAUSED, S.GONE),
    (S.DESTROY_REQUESTED, S.DESTROY_SENT),
    (S.DESTROY_REQUESTED, S.GONE),
    (S.DESTROY_SENT, S.DESTROY_REQUESTED),
    (S.DESTROY_SENT, S.GONE),
    (S.GONE, S.DESTROY_REQUESTED),
    (S.ABANDONED, S.DESTROY_REQUESTED),
}


@pytest.mark.parametrize(("before", "after"), list(product(LeaseState, LeaseState)))
def test_the_table_is_the_whole_life(before: LeaseState, after: LeaseState) -> None:
    lease = an_intent(state=before)
    if before is after or (before, after) in ARROWS:
        assert lease.move(after).state is after
    else:
        with pytest.raises(InvalidTransition, match=f"{before} → {after}"):
            lease.move(after)


def test_a_move_carries_other_changes_and_leaves_the_old_value_alone() -> None:
    lease = an_intent()
    moved = lease.move(S.ACTIVE, instance_id="7")
    assert (moved.state, moved.instance_id) == (S.ACTIVE, "7")
    assert (lease.state, lease.instance_id) == (S.INTENT, None)


def _reachable(start: LeaseState) -> set[LeaseState]:
    found, todo = {start}, [start]
    while todo:
        for state in LEASE_TRANSITIONS[todo.pop()] - found:
            found.add(state)
            todo.append(state)
    return found


def test_every_state_is_reached_from_an_intent() -> None:
    assert _reachable(S.INTENT) == set(LeaseState)


@pytest.mark.parametrize("state", LeaseState)
def test_every_state_leads_to_an_end(state: LeaseState) -> None:
    assert _reachable(state) & OVER


def test_a_lease_once_given_up_is_never_wanted_again() -> None:
    for state in set(LeaseState) - WANTED:
        assert not _reachable(state) & WANTED
