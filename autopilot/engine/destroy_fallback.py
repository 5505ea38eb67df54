"""Releasing a machine on a market that ignores commands: destroy, else stop, else the lowest bid.

The destroy is repeated in any case: a stopped machine still bills its disk. The last resort is not here but on the
machine: ordered to leave and without a new permit, its agent destroys it.
"""

from __future__ import annotations

from decimal import Decimal

import structlog

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import Done, MarketUnknown, Provider, RefusalCode, Refused, Unknown

log = structlog.get_logger(__name__)

FALLBACKS_AFTER = 2
"""So many destroys have come to nothing before anything else is tried as well."""


def is_accepted(outcome: Done[None] | Refused | Unknown) -> bool:
    """The market says that it is gone, or will be: a claim."""
    return isinstance(outcome, Done) or (isinstance(outcome, Refused) and outcome.code is RefusalCode.NOT_FOUND)


async def apply_destroy_fallback(provider: Provider, instance_id: str, lowest_bid: Decimal) -> None:
    """End what costs most of a machine that cannot be got rid of: its GPUs, by a stop or by being outbid."""
    if not await _may_run(provider, instance_id):
        return
    stopped = await provider.stop(instance_id)
    log.warning("instance.stop_asked", provider=provider.name, instance=instance_id, outcome=repr(stopped))
    if isinstance(stopped, Done) or not provider.capabilities.can_rebid:
        return
    # Looked at once more: to some markets a bid on a stopped machine is the wish to start it.
    try:
        shown = await provider.instance(instance_id)
    except MarketUnknown:
        return
    is_running = shown is not None and shown.status is InstanceStatus.RUNNING
    if shown is None or not is_running or shown.capacity_type is not CapacityType.SPOT or shown.bid <= lowest_bid:
        return
    lowered = await provider.change_bid(instance_id, lowest_bid)
    log.warning("instance.bid_lowered", provider=provider.name, instance=instance_id, outcome=repr(lowered))


async def _may_run(provider: Provider, instance_id: str) -> bool:
    try:
        shown = await provider.instance(instance_id)
    except MarketUnknown:
        return True
    return shown is not None and (shown.status is not InstanceStatus.STOPPED or shown.intended_running)
