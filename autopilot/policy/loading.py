"""How long a machine may take until the command runs on it.

Until its agent speaks that is the market's and the host's affair, and short. From then on it is the user's: inputs,
``setup`` and the checkpoint take as long as filling the disk may take over a slow link, and some more.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params


def loads_too_long(lease: Lease, now: datetime, params: Params) -> bool:
    """Of a machine whose agent has not spoken since it was rented, or woken."""
    return now - _loading_since(lease) >= timedelta(seconds=params.loading.timeout_s)


def prepares_too_long(lease: Lease, now: datetime, params: Params) -> bool:
    """Of a machine whose agent speaks and has not begun the command: at one stage of getting ready for it."""
    since = lease.agent.preparing_since
    fill_s = float(lease.disk_gb) * 8000 / params.loading.preparing_mbps
    return since is not None and now - since >= timedelta(seconds=params.loading.preparing_least_s + fill_s)


def _loading_since(lease: Lease) -> datetime:
    """Since when it loads: since it was rented, or since its last pause or loss of its host was over."""
    idle = (InstanceStatus.STOPPED, InstanceStatus.OFFLINE)
    woken = [span.ended_at for span in lease.spans if span.status in idle and span.ended_at]
    return woken[-1] if woken else lease.acquired_at or lease.intended_at
