"""A paused machine: wait, re-bid, or leave, whichever finishes the job for the least.

An outbid is answered by a raise at once, and by another when the first one did not bring the machine back, as long as
that still costs less than starting anew elsewhere. When all rungs are used up it was not a bid that took the machine:
on-demand renters outrank any bid, so more money is pointless and the choice is to leave or to wait. After leaving, the
machine is destroyed, because a paused one wakes up by itself and bills.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.actions import Action, ChangeBid, Note, Release
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.options import waits_for_spot
from autopilot.pricing.pressure import Pressure
from autopilot.pricing.rule.bidding import raised_bid
from autopilot.pricing.rule.cost import Candidate, best, lease_cost_to_finish


def decide_paused(
    job: Job,
    lease: Lease,
    candidates: list[Candidate],
    pressure: Pressure,
    market: Market,
    now: datetime,
    params: Params,
) -> tuple[tuple[Action, ...], tuple[Note, ...]]:
    paused_for = now - (lease.observed.paused_at or now)
    waited_out = paused_for >= timedelta(seconds=params.waiting.longest_pause_s)
    since_raise = now - lease.bidding.changed_at if lease.bidding.changed_at else None
    if since_raise is not None and since_raise > paused_for:
        since_raise = None  # it answered an earlier pause
    view = market.providers.get(lease.provider)
    can_rebid = view is not None and view.capabilities.can_rebid
    rung = raised_bid(job.spec, lease, params) if can_rebid and lease.is_spot else None
    rebid = None
    if rung is not None:
        rebid = lease_cost_to_finish(job, lease, rung, params.timing.resume_s, market.outlook, now, params)
    other = best(candidates, CapacityType.SPOT if waits_for_spot(job, pressure, market) else None)
    note = Note(
        "paused",
        (
            ("cause", lease.observed.pause_cause),
            ("paused_s", round(paused_for.total_seconds())),
            ("rebid", rung),
            ("cost_of_rebid", rebid),
            ("cost_of_leaving", other.cost if other else None),
            ("cost_of_waiting_per_h", lease.storage_rate),
        ),
    )
    if lease.observed.pause_cause is Reason.OUT_OF_CREDIT:
        # Every machine of the account stopped at once: no bid helps until the user pays in.
        return (), (note,)
    if lease.observed.pause_cause is Reason.EXPIRING:
        return (Release(lease.id, Reason.EXPIRING),), (note,)
    if since_raise is not None and since_raise < timedelta(seconds=params.bids.rebid_settle_s):
        return (), (note,)
    if not waited_out and rung is not None and rebid is not None and (other is None or rebid <= other.cost):
        # After that long even a raise that is refused, or vetoed, at every turn has had its chances.
        return (ChangeBid(lease.id, rung, Reason.OUTBID),), (note,)
    is_displaced = lease.bidding.raises >= params.bids.max_rebids > 0
    cause = Reason.DISPLACED if is_displaced else lease.observed.pause_cause or Reason.UNKNOWN
    if other is not None or pressure.needs_on_demand or waited_out:
        return (Release(lease.id, cause),), (note,)
    return (), (note,)
