"""Why a machine stopped: by evidence alone.

A stopped machine looks the same for every cause. Without evidence, a stop is not taken for an outbid: on ``UNKNOWN``
no bid is raised, and it counts as no loss in the odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.lease import Lease
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason

LOSSES = frozenset({Reason.OUTBID, Reason.DISPLACED, Reason.HOST_LOST, Reason.VANISHED})
"""Ends of a machine's time that speak of its market, and so of the odds there."""
CERTIFYING = (Reason.CERTIFYING, Reason.CERTIFYING_PULL)


@dataclass(frozen=True, slots=True)
class StopEvidence:
    """What is known of a stop beside what its market shows of the machine."""

    out_of_credit: bool = False
    """The account's credit is used up."""
    permit_over: bool = False
    """Its permit had run out when it stopped, or its agent has said so."""


NO_EVIDENCE = StopEvidence()


def name_cause(lease: Lease, instance: Instance, evidence: StopEvidence, at: datetime) -> Reason:
    """Cause of a stop that the market shows. ``lease``: as it was before that."""
    if evidence.out_of_credit:
        return Reason.OUT_OF_CREDIT
    if instance.ends_at is not None and at >= instance.ends_at:
        return Reason.EXPIRING
    if instance.start_failed and not lease.has_run:
        return Reason.STUCK_LOADING
    said = _said(lease, instance)
    if said is Stopper.HOST:
        return Reason.HOST_LOST
    is_beaten = is_outbid(instance.capacity_type, instance.bid, instance.price_to_win)
    if said is Stopper.BIDDER:
        return Reason.OUTBID if is_beaten or instance.price_to_win is None else Reason.DISPLACED
    if evidence.permit_over:
        return Reason.PERMIT
    if said is Stopper.USER and lease.reason not in CERTIFYING:
        return Reason.CONSOLE
    return Reason.OUTBID if is_beaten else Reason.UNKNOWN


def is_outbid(capacity_type: CapacityType, bid: Decimal, price_to_win: Decimal | None) -> bool:
    """Whether a bid above ours is shown: that alone is a reason to bid more."""
    return capacity_type is CapacityType.SPOT and price_to_win is not None and price_to_win > bid


def is_beaten(lease: Lease) -> bool:
    return is_outbid(lease.capacity_type, lease.bid, lease.observed.price_to_win)


def _said(lease: Lease, instance: Instance) -> Stopper | None:
    """The market's word, unless it is of an earlier stop: the machine was seen to run since."""
    ran = [span.started_at for span in lease.spans if span.status is InstanceStatus.RUNNING]
    told_at = instance.stop_said_at
    return None if told_at is not None and ran and told_at < ran[-1] else instance.stopped_by
