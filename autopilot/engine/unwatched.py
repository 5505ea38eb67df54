"""Until when a machine can have run while nobody watched: its permit is the bound, where it is found to have ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.evolve_lease import UNOBSERVED_LASTS
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.offer import Capabilities, DeadMan
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.policy.budget import PERMIT_TAIL_S

ENDS_WITHIN = timedelta(minutes=2)
"""After its permit: the agent has read its last orders a moment after they were written, saves, and goes."""


def permit_bound(
    lease: Lease, able: Capabilities, longest_ttl_s: int, beat: Heartbeat | None, now: datetime
) -> datetime | None:
    """By when a machine that is found stopped, or gone, has ended itself. None: nobody can say, it may have run on.

    It was seen to run under an agent that counts a permit, we sent it nothing that starts it since, and no word of
    it tells of another boot or of a later hour. ``beat``: what its mailbox holds now.
    """
    renewed_at, since = lease.permit.renewed_at, lease.shown_at
    is_known = lease.observed.status is InstanceStatus.RUNNING and lease.agent.boot > 0
    if able.dead_man is DeadMan.NONE or renewed_at is None or not is_known or now - since <= UNOBSERVED_LASTS:
        return None
    if lease.bidding.changed_at is not None and lease.bidding.changed_at >= since:
        return None
    if beat is not None and beat.boot != lease.agent.boot:
        return None
    # On a virtual machine the host program waits so long for an agent that cannot go.
    tail = timedelta(seconds=PERMIT_TAIL_S) if able.boots_vm else ENDS_WITHIN
    ended_by = renewed_at + timedelta(seconds=lease.permit.ttl_s or longest_ttl_s) + tail
    last_word = max(since, lease.agent.seen_at or since)
    return ended_by if last_word < ended_by < now else None
