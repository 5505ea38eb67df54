"""A paused machine: wait, re-bid, start, or leave, whichever finishes the job for the least.

A bid is raised only if a higher one is shown: at once, and again if the first raise did not bring the machine back, as
long as that still costs less than restarting elsewhere. If the machine was outbid and no higher bid is shown, an
on-demand renter has it, who outranks any bid: more money is pointless and the choice is to leave or to wait.
After leaving, the machine is destroyed, because a paused one wakes up by itself and bills.

What was stopped and not by a bid is started once at the bid that it has; when that does not bring it back, it is left
where something else can be had. What its user stopped in the market's console is left alone: its disk bills for as long
as a paused machine is waited for at all, then it is given back and the job is parked. A market that does not pause
outbid machines brings none of them back: such a machine is left at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.actions import Action, ChangeBid, Note, Release, SetStatus, Start
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import ceil_nano
from autopilot.domain.offer import Capabilities, CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import is_beaten
from autopilot.policy.auctioned import learnt_markup
from autopilot.policy.budget import covers_raise
from autopilot.policy.options import waits_for_spot
from autopilot.policy.own_bids import sets_our_price
from autopilot.policy.situation import Answer, Situation
from autopilot.pricing.rule.bidding import raised_bid
from autopilot.pricing.rule.cost import Candidate, lease_cost_to_finish
from autopilot.pricing.traffic import received_gb, restart_s

GIVES_BACK = (Reason.PAID_IN, Reason.PERMIT)
"""No rival bid: the machine is available at the bid that it has."""
TO_START = (*GIVES_BACK, Reason.UNKNOWN)


def decide_paused(situation: Situation, lease: Lease) -> Answer:
    return _Paused(situation, lease).answer()


@dataclass(frozen=True, slots=True)
class _Paused:
    """The choice for one machine that is stopped."""

    situation: Situation
    lease: Lease

    def answer(self) -> Answer:
        rung = self.rung()
        rebid = None if rung is None else self._cost_at(rung)
        return self._act(rung, rebid), (self._note(rung, rebid),)

    def _act(self, rung: Decimal | None, rebid: Decimal | None) -> tuple[Action, ...]:
        lease = self.lease
        if self._cause is Reason.OUT_OF_CREDIT:
            # Every machine of the account stopped at once: no bid helps until the user pays in.
            return ()
        if self._cause is Reason.CONSOLE:
            parked = Release(lease.id, Reason.CONSOLE), SetStatus(JobStatus.PARKED, Reason.CONSOLE)
            return parked if self._has_waited_out else ()
        if self._is_lost_for_good:
            return (Release(lease.id, self._cause),)
        if self._is_settling:
            return ()
        # After the longest wait even a raise that is refused, or vetoed, at every turn has had its chances.
        if not self._has_waited_out:
            if (reason := self._why_start()) is not None:
                return (Start(lease.id, reason),)
            if rung is not None and rebid is not None and self.is_cheapest(rebid):
                return (ChangeBid(lease.id, rung, Reason.OUTBID),)
            if self._other is None and not self.situation.pressure.needs_on_demand:
                return ()
        return (Release(lease.id, _cause_of_loss(lease, self.situation.params)),)

    @property
    def _cause(self) -> Reason:
        return self.lease.observed.pause_cause or Reason.UNKNOWN

    @property
    def _able(self) -> Capabilities | None:
        return self.situation.market.able(self.lease.provider)

    @property
    def _pays_bid(self) -> bool:
        return self._able is None or self._able.bills_at_bid

    @property
    def _keeps_disk(self) -> bool:
        return self._able is None or self._able.keeps_disk_when_stopped

    @property
    def _paused_for(self) -> timedelta:
        return self.situation.now - (self.lease.observed.paused_at or self.situation.now)

    @property
    def _has_waited_out(self) -> bool:
        return self._paused_for >= timedelta(seconds=self.situation.params.waiting.longest_pause_s)

    @property
    def _since_change(self) -> timedelta | None:
        """Since the last raise or start of this pause; None: there was none."""
        changed_at = self.lease.bidding.changed_at
        since = None if changed_at is None else self.situation.now - changed_at
        return None if since is None or since > self._paused_for else since

    @property
    def _is_settling(self) -> bool:
        """A raise or a start has its time. Twice as long where its bid wins as far as is known: some hold rounds."""
        since, settle = self._since_change, timedelta(seconds=self.situation.params.bids.rebid_settle_s)
        is_told = self.lease.observed.price_to_win is not None and self._cause is Reason.OUTBID
        patience = 2 * settle if is_told and not is_beaten(self.lease) else settle
        return since is not None and since < patience

    @property
    def _other(self) -> Candidate | None:
        """What else the job could have."""
        return self.situation.candidates.best(CapacityType.SPOT if waits_for_spot(self.situation) else None)

    @property
    def _is_lost_for_good(self) -> bool:
        """It has ended, or its market never gives it back; or its bid raises the cost of our other machines there."""
        lease, able = self.lease, self._able
        if self._cause in (Reason.EXPIRING, Reason.HOST_LOST):
            return True
        stays_out = able is not None and not able.pauses_when_outbid and lease.is_spot
        return self._cause not in GIVES_BACK and (stays_out or sets_our_price(lease, self.situation.market))

    def _why_start(self) -> Reason | None:
        """Why it is to be started at the bid that it has; None: it is not."""
        if is_beaten(self.lease):
            return None
        if self._cause in TO_START:
            if self._since_change is not None:
                return self._cause if self._other is None else None  # it did not bring it back
            return self._cause if self._cause in GIVES_BACK or self.is_cheapest(self._cost_as_it_is()) else None
        is_waiting = self._able is not None and not self._able.resumes_by_itself
        has_won = self.lease.is_spot and self.lease.observed.price_to_win is not None
        return Reason.FLOOR_MOVED if is_waiting and has_won and self.is_cheapest(self._cost_as_it_is()) else None

    def is_cheapest(self, cost: Decimal) -> bool:
        return self._other is None or cost <= self._other.cost

    def rung(self) -> Decimal | None:
        """The bid that would bring it back, where one above ours is shown; $/h."""
        able, situation = self._able, self.situation
        if able is None or not (able.can_rebid and able.pauses_when_outbid) or not is_beaten(self.lease):
            return None
        markup = learnt_markup(situation)
        return raised_bid(situation.job.spec, self.lease, situation.params, markup, pays_bid=self._pays_bid)

    def _cost_at(self, rung: Decimal) -> Decimal:
        """Dollars to finish there with that bid."""
        return _cost_of_return(self.situation, self.lease, self.price_at(rung), keeps_disk=self._keeps_disk)

    def price_at(self, rung: Decimal) -> Decimal:
        """$/h with that bid; with what it does to the price of our other machines."""
        to_win = self.lease.observed.price_to_win
        price = rung if self._pays_bid or to_win is None else min(rung, to_win)
        ours = self.situation.market.ours.get((self.lease.provider, self.lease.machine_id))
        return price if ours is None else price + ours.dearer_by(price)

    def _cost_as_it_is(self) -> Decimal:
        to_win = self.lease.observed.price_to_win
        paid = self.lease.bid if self._pays_bid or to_win is None else to_win
        return _cost_of_return(self.situation, self.lease, paid, keeps_disk=self._keeps_disk)

    def _note(self, rung: Decimal | None, rebid: Decimal | None) -> Note:
        other, lease = self._other, self.lease
        longest = timedelta(seconds=self.situation.params.waiting.longest_pause_s)
        left_s = max((longest - self._paused_for).total_seconds(), 0)
        return Note(
            "paused",
            (
                ("cause", lease.observed.pause_cause),
                ("paused_s", round(self._paused_for.total_seconds())),
                ("price_to_win", lease.observed.price_to_win),
                ("rebid", rung),
                ("cost_of_rebid", rebid),
                ("cost_of_leaving", other.cost if other else None),
                ("cost_of_waiting_per_h", lease.storage_rate),
                ("kept_for_s", round(left_s)),
            ),
        )


def keep_by_raise(situation: Situation, lease: Lease) -> Answer | None:
    """A machine that was outbid, and is told so minutes before it stops, is kept by the raise that would bring it back
    afterwards: nothing is lost yet. None: it is not so, or a raise is not to be made."""
    job, params, now, held = situation.job, situation.params, situation.now, _Paused(situation, lease)
    able, rung = situation.market.able(lease.provider), held.rung()
    if able is None or not able.notice_may_be_withdrawn or rung is None:
        return None
    changed_at, settle = lease.bidding.changed_at, timedelta(seconds=params.bids.rebid_settle_s)
    if changed_at is not None and now - changed_at < settle:
        return None
    cost = lease_cost_to_finish(job, lease, held.price_at(rung), 0.0, situation.market.outlook, now, params)
    if not covers_raise(job, lease, rung, now, params) or not held.is_cheapest(cost):
        return None
    note = Note("outbid", (("price_to_win", lease.observed.price_to_win), ("rebid", rung), ("cost_of_rebid", cost)))
    return (ChangeBid(lease.id, rung, Reason.OUTBID),), (note,)


def _cause_of_loss(lease: Lease, params: Params) -> Reason:
    """What took the machine for good.

    A bidder, where a bid above ours is known to win; an on-demand renter, where ours should win or no raise helps.
    """
    seen, to_win = lease.observed.pause_cause or Reason.UNKNOWN, lease.observed.price_to_win
    if seen is not Reason.OUTBID:
        return seen
    if to_win is not None and to_win != lease.bid:
        return Reason.OUTBID if to_win > lease.bid else Reason.DISPLACED
    return Reason.DISPLACED if lease.bidding.raises >= params.bids.max_rebids > 0 else seen


def _cost_of_return(situation: Situation, lease: Lease, price: Decimal, *, keeps_disk: bool) -> Decimal:
    """Dollars to finish on the paused machine at that price, $/h.

    Without its disk it resumes like a new machine: it is set up, and receives image, inputs and checkpoint again.
    """
    job, params = situation.job, situation.params
    again_s = params.timing.resume_s if keeps_disk else restart_s(job, params)
    cost = lease_cost_to_finish(job, lease, price, again_s, situation.market.outlook, situation.now, params)
    if keeps_disk:
        return cost
    return cost + ceil_nano(lease.traffic.download_price * received_gb(job, params))
