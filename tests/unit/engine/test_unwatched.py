"""By when an unwatched machine has ended, if the market reports that it has."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.offer import DeadMan
from autopilot.engine.unwatched import EndBound, end_bound
from autopilot.mailbox.report_shapes import Heartbeat
from tests.builders import a_lease, at, capabilities

ABLE = capabilities()
BEAT = Heartbeat(boot=1, seq=9, run_epoch=1, orders_seq_seen=4, state=AgentState.RUNNING)
UNBOUNDED = EndBound()
LATER = at(7200)


def watched(**changes: Any) -> Lease:
    """Last seen to run at 100 s, and heard; its permit of 900 s is from 60 s."""
    lease = a_lease()
    lease = replace(
        lease,
        observed=replace(lease.observed, seen_at=at(100), status=InstanceStatus.RUNNING),
        agent=replace(lease.agent, boot=1, seen_at=at(100), state=AgentState.RUNNING),
        permit=replace(lease.permit, seq=4, renewed_at=at(60), ttl_s=900),
    )
    for part, values in changes.items():
        lease = replace(lease, **{part: replace(getattr(lease, part), **values)})
    return lease


def bound(lease: Lease, beat: Heartbeat | None = BEAT, now: datetime = LATER, **able: Any) -> EndBound:
    """By when it has ended; why, is another test's."""
    return replace(end_bound(lease, replace(ABLE, **able), 900, beat, now), permit_over=False)


def test_it_has_ended_two_minutes_after_its_permit() -> None:
    assert bound(watched()) == EndBound(at(1080), at(1080))


def test_a_virtual_machine_takes_longer_and_what_is_only_off_keeps_its_disk() -> None:
    assert bound(watched(), boots_vm=True, dead_man=DeadMan.POWERS_OFF) == EndBound(at(1200), None)


@pytest.mark.parametrize(
    ("lease", "beat"),
    [
        pytest.param(watched(), None, id="its mailbox cannot be read"),
        pytest.param(watched(), replace(BEAT, boot=2), id="it was woken"),
        pytest.param(watched(agent={"boot": 0}), BEAT, id="its agent was never heard"),
        pytest.param(watched(permit={"renewed_at": None}), BEAT, id="it has no permit"),
        pytest.param(watched(observed={"status": InstanceStatus.PROVISIONING}), BEAT, id="it was loading"),
        pytest.param(watched(observed={"status": InstanceStatus.STOPPED}), BEAT, id="it was stopped, and may wake"),
        pytest.param(watched(bidding={"changed_at": at(100)}), BEAT, id="we have asked for a start"),
        pytest.param(watched(agent={"seen_at": at(1100)}), BEAT, id="it was heard after that"),
        pytest.param(watched(observed={"seen_at": at(1100)}), BEAT, id="it was seen to run after that"),
    ],
)
def test_any_other_lease_is_unbounded(lease: Lease, beat: Heartbeat | None) -> None:
    assert bound(lease, beat) == UNBOUNDED


def test_nor_where_it_cannot_end_its_bill_or_was_watched_all_the_time() -> None:
    assert bound(watched(), dead_man=DeadMan.NONE) == UNBOUNDED
    assert bound(watched(), now=at(190)) == UNBOUNDED


def test_a_stopped_machine_that_does_not_resume_by_itself_stays_stopped() -> None:
    stopped = watched(observed={"status": InstanceStatus.STOPPED})
    assert bound(stopped, resumes_by_itself=False) == EndBound(stopped=at(100))
    asked = replace(stopped, bidding=replace(stopped.bidding, changed_at=at(101)))
    assert bound(asked, resumes_by_itself=False) == UNBOUNDED


def is_over(lease: Lease, beat: Heartbeat | None = BEAT, now: datetime = LATER, **able: Any) -> bool:
    return end_bound(lease, replace(ABLE, **able), 900, beat, now).permit_over


def test_a_permit_is_over_if_the_machine_was_not_seen_running_beyond_it() -> None:
    """From 60 s, for 900 s."""
    assert is_over(watched())
    assert is_over(watched(), None), "its mailbox need not be read"
    assert is_over(watched(), now=at(960))
    assert not is_over(watched(), now=at(959))
    assert not is_over(watched(observed={"seen_at": at(1200)})), "it was shown to run after that"
    assert not is_over(watched(permit={"renewed_at": None}))
    assert not is_over(watched(agent={"boot": 0}))
    assert not is_over(watched(), dead_man=DeadMan.NONE)


def test_an_agent_that_says_so_is_believed_for_its_newest_word() -> None:
    said = replace(BEAT, state=AgentState.EXPIRED)
    early = at(110)
    assert is_over(watched(agent={"seq": 8}), said, early)
    assert not is_over(watched(agent={"seq": 9}), said, early), "what was heard before is no news"
    assert is_over(watched(agent={"seq": 9, "state": AgentState.EXPIRED}), None, early)
