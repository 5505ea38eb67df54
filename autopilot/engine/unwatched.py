"""Until when an unobserved machine can have run. If it is found to have ended, its permit is the bound."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.domain.agent_state import AgentState
from autopilot.domain.evolve_lease import UNOBSERVED_LASTS
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.offer import Capabilities, DeadMan
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.policy.budget import PERMIT_TAIL_S

ENDS_WITHIN = timedelta(minutes=2)
"""After its permit: the agent has read its last orders a moment after they were written, saves, and goes."""


@dataclass(frozen=True, slots=True)
class EndBound:
    """By when a machine has ended, should it be found ``stopped``, or ``gone``. None: it may have run on."""

    stopped: datetime | None = None
    gone: datetime | None = None
    permit_over: bool = False
    """Should it be found stopped now: its permit had run out by then."""


def end_bound(lease: Lease, able: Capabilities, longest_ttl_s: int, beat: Heartbeat | None, now: datetime) -> EndBound:
    """What is certain of a machine that was unobserved for a while. ``beat``: what its mailbox holds now."""
    permit_over = _is_permit_over(lease, able, longest_ttl_s, beat, now)
    since, changed_at = lease.shown_at, lease.bidding.changed_at
    has_been_asked = changed_at is not None and changed_at >= since
    if now - since <= UNOBSERVED_LASTS or has_been_asked:
        return EndBound(permit_over=permit_over)
    if lease.observed.status is InstanceStatus.STOPPED:
        return EndBound(stopped=None if able.resumes_by_itself else since, permit_over=permit_over)
    ended_by = _permit_end(lease, able, longest_ttl_s, beat)
    last_word = max(since, lease.agent.seen_at or since)
    if ended_by is None or not last_word < ended_by < now:
        return EndBound(permit_over=permit_over)
    gone = ended_by if able.dead_man is DeadMan.DESTROYS else None
    return EndBound(ended_by, gone, permit_over)


def _is_permit_over(
    lease: Lease, able: Capabilities, longest_ttl_s: int, beat: Heartbeat | None, now: datetime
) -> bool:
    """Whether its agent has reported so, or it cannot have been seen running without a permit."""
    is_news = beat is not None and (beat.boot, beat.seq) > (lease.agent.boot, lease.agent.seq)
    said = beat.state if beat is not None and is_news else lease.agent.state
    if said is AgentState.EXPIRED:
        return True
    if able.dead_man is DeadMan.NONE or lease.agent.boot == 0 or lease.observed.status is not InstanceStatus.RUNNING:
        return False
    ends_at = _permit_ends_at(lease, longest_ttl_s)
    return ends_at is not None and lease.shown_at <= ends_at + _tail(able) and ends_at <= now


def _permit_end(lease: Lease, able: Capabilities, longest_ttl_s: int, beat: Heartbeat | None) -> datetime | None:
    """It was seen to run under an agent that counts a permit, and its mailbox tells of no other boot."""
    is_known = lease.observed.status is InstanceStatus.RUNNING and lease.agent.boot > 0
    if able.dead_man is DeadMan.NONE or not is_known:
        return None
    if beat is None or beat.boot != lease.agent.boot:
        return None
    ends_at = _permit_ends_at(lease, longest_ttl_s)
    return None if ends_at is None else ends_at + _tail(able)


def _permit_ends_at(lease: Lease, longest_ttl_s: int) -> datetime | None:
    renewed_at = lease.permit.renewed_at
    return None if renewed_at is None else renewed_at + timedelta(seconds=lease.permit.ttl_s or longest_ttl_s)


def _tail(able: Capabilities) -> timedelta:
    """On a virtual machine the host program waits so long for an agent that cannot go."""
    return timedelta(seconds=PERMIT_TAIL_S) if able.boots_vm else ENDS_WITHIN
