"""A paused machine: wait, re-bid, or leave, whichever finishes the job for the least.

An outbid is answered by a raise at once, and by another when the first one did not bring the machine back, as long as
that still costs less than restarting elsewhere. When all rungs are used up and no higher bid is known, it was not a
bid that took the machine: on-demand renters outrank any bid, so more money is pointless and the choice is to leave or
to wait. After leaving, the machine is destroyed, because a paused one wakes up by itself and bills. Where it does not,
it is started once its bid is as high as the market says that it must be. A market that does not pause outbid machines
brings none of them back: such a machine is left at once.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from autopilot.domain.actions import ChangeBid, Note, Release, Start
from autopilot.domain.lease import Lease
from autopilot.domain.money import ceil_nano
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.markups import learnt_markup
from autopilot.policy.options import waits_for_spot
from autopilot.policy.own_bids import sets_our_price
from autopilot.policy.situation import Answer, Situation
from autopilot.pricing.rule.bidding import raised_bid
from autopilot.pricing.rule.cost import lease_cost_to_finish
from autopilot.pricing.traffic import received_gb


def decide_paused(situation: Situation, lease: Lease) -> Answer:  # noqa: C901
    job, market, now, params = situation.job, situation.market, situation.now, situation.params
    paused_for = now - (lease.observed.paused_at or now)
    has_waited_out = paused_for >= timedelta(seconds=params.waiting.longest_pause_s)
    since_raise = now - lease.bidding.changed_at if lease.bidding.changed_at else None
    if since_raise is not None and since_raise > paused_for:
        since_raise = None  # it answered an earlier pause
    view = market.providers.get(lease.provider)
    able = view.capabilities if view is not None else None
    can_rebid = able is not None and able.can_rebid and able.pauses_when_outbid
    pays_bid = able is None or able.bills_at_bid
    rung = None
    # Where bids that lose set the price, none is raised in the dark.
    is_told = able is None or not able.bids_set_price or lease.observed.price_to_win is not None
    if can_rebid and lease.is_spot and is_told:
        rung = raised_bid(job.spec, lease, params, learnt_markup(situation), pays_bid=pays_bid)
    keeps_disk = able is None or able.keeps_disk_when_stopped
    to_win = lease.observed.price_to_win
    price = rung if pays_bid or to_win is None or rung is None else min(rung, to_win)
    ours = market.ours.get((lease.provider, lease.machine_id))
    if price is not None and ours is not None:
        price += ours.dearer_by(price)
    rebid = None if price is None else _cost_of_rebid(situation, lease, price, keeps_disk=keeps_disk)
    other = situation.candidates.best(CapacityType.SPOT if waits_for_spot(situation) else None)
    note = Note(
        "paused",
        (
            ("cause", lease.observed.pause_cause),
            ("paused_s", round(paused_for.total_seconds())),
            ("price_to_win", lease.observed.price_to_win),
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
    if lease.observed.pause_cause is Reason.PAID_IN and not has_waited_out:
        # Nobody has bid against it.
        return (Start(lease.id, Reason.PAID_IN),), (note,)
    if able is not None and not able.pauses_when_outbid and lease.is_spot:
        # This market does not bring an outbid machine back: it is lost, and only its disk still bills.
        return (Release(lease.id, lease.observed.pause_cause or Reason.UNKNOWN),), (note,)
    if sets_our_price(lease, market):
        # It would come back by itself, and until then our other machines there may pay by its limit.
        return (Release(lease.id, lease.observed.pause_cause or Reason.UNKNOWN),), (note,)
    if since_raise is not None and since_raise < timedelta(seconds=params.bids.rebid_settle_s):
        return (), (note,)
    if able is not None and not able.resumes_by_itself and not has_waited_out and _is_winning(lease):
        paid = lease.bid if pays_bid or to_win is None else to_win
        as_it_is = _cost_of_rebid(situation, lease, paid, keeps_disk=keeps_disk)
        if other is None or as_it_is <= other.cost:
            return (Start(lease.id, Reason.FLOOR_MOVED),), (note,)
    # After the longest wait even a raise that is refused, or vetoed, at every turn has had its chances.
    if rung is not None and rebid is not None and not has_waited_out:
        is_cheapest = other is None or rebid <= other.cost
        if is_cheapest:
            return (ChangeBid(lease.id, rung, Reason.OUTBID),), (note,)
    if other is None and not situation.pressure.needs_on_demand and not has_waited_out:
        return (), (note,)
    return (Release(lease.id, _cause_of_loss(lease, params)),), (note,)


def keep_by_raise(situation: Situation, lease: Lease) -> Answer | None:
    """A machine that was outbid, and is told so minutes before it stops, is kept by the raise that would bring it back
    afterwards: nothing is lost yet. None: it is not so, or a raise is not to be made."""
    job, market, params = situation.job, situation.market, situation.params
    view, to_win = market.providers.get(lease.provider), lease.observed.price_to_win
    is_told = view is not None and view.capabilities.notice_may_be_withdrawn and view.capabilities.can_rebid
    if view is None or not is_told or to_win is None or to_win <= lease.bid:
        return None
    changed_at, settle = lease.bidding.changed_at, timedelta(seconds=params.bids.rebid_settle_s)
    if changed_at is not None and situation.now - changed_at < settle:
        return None
    pays_bid = view.capabilities.bills_at_bid
    rung = raised_bid(job.spec, lease, params, learnt_markup(situation), pays_bid=pays_bid)
    if rung is None:
        return None
    price = rung if pays_bid else min(rung, to_win)
    ours = market.ours.get((lease.provider, lease.machine_id))
    price += ours.dearer_by(price) if ours is not None else 0
    cost = lease_cost_to_finish(job, lease, price, 0.0, market.outlook, situation.now, params)
    other = situation.candidates.best(CapacityType.SPOT if waits_for_spot(situation) else None)
    if other is not None and other.cost < cost:
        return None
    note = Note("outbid", (("price_to_win", to_win), ("rebid", rung), ("cost_of_rebid", cost)))
    return (ChangeBid(lease.id, rung, Reason.OUTBID),), (note,)


def _is_winning(lease: Lease) -> bool:
    """Its bid is as high as it needs to be, as the market says it."""
    to_win = lease.observed.price_to_win
    return lease.is_spot and to_win is not None and to_win <= lease.bid


def _cause_of_loss(lease: Lease, params: Params) -> Reason:
    """What took the machine for good.

    A bidder, where a bid above ours is known to win; an on-demand renter, where ours should win or no raise helps.
    """
    seen, to_win = lease.observed.pause_cause or Reason.UNKNOWN, lease.observed.price_to_win
    if seen is Reason.OUTBID and to_win is not None and to_win != lease.bid:
        return Reason.OUTBID if to_win > lease.bid else Reason.DISPLACED
    return Reason.DISPLACED if lease.bidding.raises >= params.bids.max_rebids > 0 else seen


def _cost_of_rebid(situation: Situation, lease: Lease, price: Decimal, *, keeps_disk: bool) -> Decimal:
    """Dollars to finish on the paused machine at that price, $/h.

    Without its disk it resumes like a new machine: it is set up, and receives image, inputs and checkpoint again.
    """
    job, params = situation.job, situation.params
    restart_s = params.timing.resume_s if keeps_disk else params.timing.setup_s
    cost = lease_cost_to_finish(job, lease, price, restart_s, situation.market.outlook, situation.now, params)
    if keeps_disk:
        return cost
    return cost + ceil_nano(lease.traffic.download_price * received_gb(job, params))
