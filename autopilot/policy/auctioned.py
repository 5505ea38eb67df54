"""Decisions where spot machines are auctioned off and floors are on record: the bid is part of the choice.

``pricing.auction.choice`` chooses. Here the job and its market become what that reads, and its answer becomes actions,
within what the market can do and what the job file and the budget allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import dropwhile, islice, takewhile
from math import inf

from autopilot.domain.actions import Acquire, Action, ChangeBid, Note, Release
from autopilot.domain.floors import Bidders
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import is_beaten
from autopilot.policy import budget
from autopilot.policy.options import is_affordable, option_note
from autopilot.policy.situation import Answer, Situation
from autopilot.policy.uncertified import fits_room
from autopilot.pricing.auction.choice import (
    AuctionedMachine,
    BidChoice,
    Do,
    HeldNow,
    OpenAuction,
    WorkLeft,
    choose,
    plan_bid,
)
from autopilot.pricing.auction.first_step import NO_LAUNCHES, first_step_s
from autopilot.pricing.auction.shadows import LossCosts
from autopilot.pricing.host_odds import patience_s
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate
from autopilot.pricing.traffic import received_gb, restart_s

HOUR_S = 3600.0
MOST_WEIGHED = 4
"""Machines, those first that are cheapest to the end. What is left out is not priced."""
MOST_LOADS = 64
"""Starts of an image that are counted, the longest."""


def is_auctioned(situation: Situation) -> bool:
    """Whether this job's options can be priced as an auction now."""
    return situation.market.outlook.bidders is not None and situation.market.may_have_spot


def by_auction(situation: Situation) -> Answer:
    """From the job's state: nothing, a machine that works or loads, or one that is paused."""
    bidders = situation.market.outlook.bidders
    assert bidders is not None, "is_auctioned"
    return _of(situation, bidders).answer()


def learnt_markup(situation: Situation) -> Decimal | None:
    """By how much bids are above floors now, as a factor; None: not learnt."""
    bidders = situation.market.outlook.bidders
    if bidders is None or not is_auctioned(situation):
        return None
    plan = plan_bid(*weigh(situation, bidders))
    return None if plan is None else Decimal(str(plan.expected.markup))


def weigh(situation: Situation, bidders: Bidders) -> tuple[WorkLeft, OpenAuction]:
    """What the decision is made of, for who plays it through."""
    auctioned = _of(situation, bidders)
    return auctioned.work(), auctioned.auction()


def _of(situation: Situation, bidders: Bidders) -> _Auctioned:
    possible = (each for each in situation.candidates.of_type(CapacityType.SPOT) if _can_start(situation, each))
    spots = {_name(each.offer): each for each in islice(possible, MOST_WEIGHED)}
    return _Auctioned(situation, bidders, spots, situation.candidates.best(CapacityType.ON_DEMAND))


def _can_start(situation: Situation, candidate: Candidate) -> bool:
    """Whether the budget, and the allowance of its market, cover a start and a stop of it."""
    job = situation.job
    if job.spec.budget is None and not _is_bounded(situation, candidate):
        return True
    is_paid = is_affordable(job, candidate, situation.params)
    return is_paid and fits_room(job, candidate, situation.market, situation.params)


def _is_bounded(situation: Situation, candidate: Candidate) -> bool:
    """By the allowance of a market without a certificate."""
    return situation.market.room_on(situation.job, candidate.offer.provider) is not None


@dataclass(frozen=True, slots=True)
class _Auctioned:
    """One decision on an auction."""

    situation: Situation
    bidders: Bidders
    spots: dict[str, Candidate]
    """By the name of the machine."""
    on_demand: Candidate | None

    def answer(self) -> Answer:
        work, auction = self.work(), self.auction()
        chosen = choose(work, auction)
        return self._actions(chosen), self._notes(work, auction, chosen)

    @property
    def _main(self) -> Lease | None:
        return self.situation.job.main

    @property
    def _provider(self) -> str | None:
        """The market of this auction."""
        name = next((each.offer.provider for each in self.spots.values()), None)
        return self._main.provider if name is None and self._main is not None else name

    @property
    def _able(self) -> Capabilities | None:
        """What it can do."""
        return None if self._provider is None else self.situation.market.able(self._provider)

    def _is_held(self, name: str) -> bool:
        """Whether it is the spot machine that is held."""
        return self._main is not None and self._main.is_spot and name == _name(self._main)

    def work(self) -> WorkLeft:
        job, pressure, params, main = self.situation.job, self.situation.pressure, self.situation.params, self._main
        left = budget.left(job, params)
        is_spot = main is not None and main.is_spot
        return WorkLeft(
            left_h=pressure.left_s / HOUR_S if self._is_due else inf,
            work_h=pressure.work_s / HOUR_S,
            held_h=(pressure.upper_work_s - pressure.work_s) / HOUR_S,
            unsaved_h=0.0 if main is None or main.state is LeaseState.PAUSED else _unsaved_h(job),
            first_step_h=(self._first_step_s() + pressure.step_s) / HOUR_S,
            costs=self._costs(),
            held=_held_as(main),
            machine=_name(main) if main is not None and is_spot else "",
            bid=float(main.computes_at) if main is not None and is_spot else 0.0,
            since_h=inf if main is None else self._since_h(main),
            lasted_h=inf if main is None else _lasted_h(main),
            budget=inf if left is None else float(left),
        )

    @property
    def _is_due(self) -> bool:
        """Whether a deadline is still ahead that on-demand capacity may be bought for."""
        pressure = self.situation.pressure
        return pressure.slack is not None and not pressure.is_past and self.situation.job.spec.fall_back

    def _first_step_s(self) -> float:
        """By what machines of this market have shown of themselves."""
        job, params, hosts = self.situation.job, self.situation.params, self.situation.market.hosts
        start_s, provider = restart_s(job, params), self._provider
        if provider is None:
            return first_step_s(start_s)
        # A load is counted to the agent's first word, and what follows is as expected.
        after_s = max(start_s - params.timing.boot_s, 0.0)
        took_s = tuple(load + after_s for load in hosts.loads.get((provider, job.spec.image), ())[-MOST_LOADS:])
        give_up_s = patience_s(hosts, job, provider, params)
        return first_step_s(start_s, took_s, hosts.by_market.get(provider, NO_LAUNCHES), give_up_s)

    def _costs(self) -> LossCosts:
        job, params, able = self.situation.job, self.situation.params, self._able
        start_s = restart_s(job, params)
        keeps_disk = able is None or able.keeps_disk_when_stopped
        cheapest = self.situation.candidates.best(CapacityType.SPOT)
        traffic = 0.0 if cheapest is None else float(cheapest.offer.download_price * received_gb(job, params))
        return LossCosts(
            checkpoint_h=job.spec.checkpoint_interval.total_seconds() / HOUR_S,
            # Without its disk a machine that comes back is set up like a new one.
            again_h=(params.budget.detect_s + (params.timing.resume_s if keeps_disk else start_s)) / HOUR_S,
            start_h=start_s / HOUR_S,
            loss_dollars=0.0 if keeps_disk else traffic,
            start_dollars=traffic,
        )

    def _since_h(self, main: Lease) -> float:
        since = main.observed.running_since or main.acquired_at or main.intended_at
        return (self.situation.now - since).total_seconds() / HOUR_S

    def auction(self) -> OpenAuction:
        job, params, main, able = self.situation.job, self.situation.params, self._main, self._able
        least = min((each.offer.storage_rate(job.spec.disk_gb) for each in self.spots.values()), default=Decimal(0))
        machines = [self._machine(name, each, least) for name, each in self.spots.items()]
        if main is not None and main.is_spot and _name(main) not in self.spots:
            own = self._own_floor(main)
            if own is not None:
                machines.append(AuctionedMachine(_name(main), own, storage_rate=float(main.storage_rate - least)))
        price = inf
        if main is not None and not main.is_spot:
            price = float(main.bid + main.storage_rate - least)
        elif self.on_demand is not None and is_affordable(job, self.on_demand, params):
            storage_rate = self.on_demand.offer.storage_rate(job.spec.disk_gb)
            price = float(self.on_demand.expected_price + storage_rate - least)
        highest = ceiling(job.spec, self._asked_on_demand(), params)
        # It may be bid, what is above it may not.
        limit = 0.0 if highest is None else float(highest + params.bids.unit)
        return OpenAuction(machines, self.bidders, price, limit, able is None or able.bills_at_bid)

    def _asked_on_demand(self) -> Decimal | None:
        """$/h that on-demand capacity costs, whether this job may have it or not."""
        if self._main is not None and not self._main.is_spot:
            return self._main.bid
        if self.on_demand is not None:
            return self.on_demand.offer.on_demand_price
        asked = [each.offer.on_demand_price for each in self.spots.values()]
        return min((price for price in asked if price is not None), default=None)

    def _machine(self, name: str, candidate: Candidate, least: Decimal) -> AuctionedMachine:
        offer, job, params = candidate.offer, self.situation.job, self.situation.params
        assert offer.floor is not None, "no bid is made without a floor"
        slower_h = max(candidate.setup.total_seconds() - restart_s(job, params), 0.0) / HOUR_S
        once = float(candidate.traffic) + slower_h * float(candidate.expected_price)
        return AuctionedMachine(name, float(offer.floor), once, float(offer.storage_rate(job.spec.disk_gb) - least))

    def _own_floor(self, main: Lease) -> float | None:
        """The floor of the machine that we hold, if the market's floor of it does not echo our own bid."""
        is_paused, able = main.state is LeaseState.PAUSED, self.situation.market.able(main.provider)
        to_win = main.observed.price_to_win
        if is_paused and to_win is not None:
            can_raise = able is not None and able.can_rebid and self._covers_raise(main, to_win)
            return float(to_win) if can_raise else None
        if able is not None and not able.bills_at_bid and main.has_run and not is_paused:
            return float(main.computes_at)  # what all pay
        return None

    def _covers_raise(self, main: Lease, to_win: Decimal) -> bool:
        """Whether the budget covers the least bid that wins: the guard refuses any other."""
        job, now, params = self.situation.job, self.situation.now, self.situation.params
        return budget.covers_raise(job, main, to_win, now, params)

    def _actions(self, chosen: BidChoice) -> tuple[Action, ...]:
        main = self._main
        if chosen.do is Do.WAIT:
            return self._wait()
        if chosen.do is Do.STAY:
            return ()
        if chosen.do is Do.ON_DEMAND:
            if self.on_demand is None:
                return ()
            cheaper = Reason.CHEAPEST if main is None else Reason.CHEAPER_ELSEWHERE
            reason = Reason.DEADLINE if chosen.is_forced else cheaper
            return self._take(self.on_demand, self.on_demand.bid, reason)
        if main is not None and self._is_held(chosen.machine):
            return self._rebid(main, _in_steps(chosen.bid, self.situation.params.bids.unit))
        candidate = self.spots[chosen.machine]
        reason = Reason.CHEAPEST if main is None else Reason.CHEAPER_ELSEWHERE
        return self._take(candidate, self._first_bid(chosen.bid, candidate), reason)

    def _wait(self) -> tuple[Action, ...]:
        """A machine that was lost is kept for as long as a paused one is waited for."""
        main = self._main
        if main is None or main.observed.paused_at is None:
            return ()
        longest = timedelta(seconds=self.situation.params.waiting.longest_pause_s)
        has_waited = self.situation.now - main.observed.paused_at >= longest
        return (Release(main.id, Reason.WAITING_FOR_PRICE),) if has_waited else ()

    def _first_bid(self, wanted: float, candidate: Candidate) -> Decimal:
        """What is really bid on a machine that is not held: within the job's limits."""
        offer, spec, params = candidate.offer, self.situation.job.spec, self.situation.params
        unit, able = params.bids.unit, self._able
        bid = max(_in_steps(wanted, unit), params.bids.least)
        if able is not None and able.rebid_needs_stop:
            bid = max(bid, candidate.bid)  # while it runs no other can be made
        highest = ceiling(spec, offer.on_demand_price, params)
        if highest is not None:
            bid = min(bid, highest)
        if spec.max_rate is not None:
            bid = min(bid, (spec.max_rate - offer.storage_rate(spec.disk_gb)).quantize(unit, ROUND_FLOOR))
        return bid

    def _take(self, candidate: Candidate, bid: Decimal, reason: Reason) -> tuple[Action, ...]:
        """Rent it: at once, beside a machine that works until the new one is ready, or in place of a paused one.

        Where an allowance lets one machine be there, the paused one has to be gone before.
        """
        main = self._main
        is_paused = main is not None and main.state is LeaseState.PAUSED
        slot = Slot.MAIN if main is None or is_paused else Slot.NEXT
        take = Acquire(slot, candidate.offer, candidate.capacity_type, bid, reason)
        if main is None or not is_paused:
            return (take,)
        leave = Release(main.id, main.observed.pause_cause or Reason.UNKNOWN)
        is_one = main.provider == candidate.offer.provider and _is_bounded(self.situation, candidate)
        return (leave,) if is_one else (leave, take)

    def _rebid(self, main: Lease, bid: Decimal) -> tuple[Action, ...]:
        """Of a machine that was lost to a bid: the core raises no other."""
        params, able = self.situation.params, self.situation.market.able(main.provider)
        highest = ceiling(self.situation.job.spec, main.on_demand_price, params)
        if able is None or not able.can_rebid or highest is None or main.state is not LeaseState.PAUSED:
            return ()
        bid, since, to_win = min(bid, highest), main.bidding.changed_at, main.observed.price_to_win
        if to_win is not None and not self._covers_raise(main, bid):
            bid = min(bid, _in_steps(float(to_win), params.bids.unit) + params.bids.unit)
        is_too_soon = since is not None and self.situation.now - since < timedelta(seconds=params.auction.rebid_gap_s)
        is_in_vain = bid == main.bid or (bid > main.bid and not is_beaten(main))
        if is_in_vain or is_too_soon or not self._covers_raise(main, bid):
            return ()
        return (ChangeBid(main.id, bid, Reason.OUTBID),)

    def _notes(self, work: WorkLeft, auction: OpenAuction, chosen: BidChoice) -> tuple[Note, ...]:
        """What each option is expected to cost to the end."""
        plan = plan_bid(work, auction)
        here = {Do.STAY: "stay", Do.WAIT: "wait"}.get(chosen.do)
        on_demand = auction.on_demand * (work.work_h + work.costs.start_h)
        spot = None if plan is None else plan.cost
        provider, _, machine = chosen.machine.partition("/")

        def note(name: str, cost: float | None, refused: str = "") -> Note:
            is_chosen = name == (here or ("on_demand" if chosen.do is Do.ON_DEMAND else "spot"))
            is_bid = is_chosen and chosen.do is Do.BID
            return option_note(
                name,
                cost,
                bid=chosen.bid if is_bid else None,
                provider=provider if is_bid else None,
                machine=machine if is_bid else None,
                refused=refused,
                chosen=is_chosen,
            )

        late = "deadline" if chosen.is_forced else ""
        rows = [note("on_demand", None if on_demand == inf else on_demand), note("spot", spot, late)]
        if here is not None:
            rows.append(note(here, on_demand if work.held is HeldNow.ON_DEMAND else spot))
        if plan is not None:
            numbers = (("markup", plan.expected.markup), ("price", plan.expected.price), ("lost", plan.expected.lost))
            rows.append(Note("bidders", tuple((name, round(number, 4)) for name, number in numbers)))
        return tuple(rows)


def _lasted_h(main: Lease) -> float:
    """For how long the last bid held a machine that is paused now."""
    if main.state is not LeaseState.PAUSED:
        return inf
    to_its_end = dropwhile(lambda span: span.status is not InstanceStatus.RUNNING, reversed(main.spans))
    ran = list(takewhile(lambda span: span.status is InstanceStatus.RUNNING, to_its_end))
    if not ran or ran[0].ended_at is None:
        return inf
    return (ran[0].ended_at - ran[-1].started_at).total_seconds() / HOUR_S


def _name(machine: Offer | Lease) -> str:
    """Of two markets each may have a machine of the same id."""
    return f"{machine.provider}/{machine.machine_id}"


def _in_steps(bid: float, unit: Decimal) -> Decimal:
    """Rounded up, without what is off by binary fractions alone."""
    return Decimal(str(round(bid, 9))).quantize(unit, ROUND_CEILING)


def _unsaved_h(job: Job) -> float:
    saved = job.checkpoint.work_done if job.checkpoint else timedelta(0)
    return max((job.work_done - saved).total_seconds(), 0.0) / HOUR_S


def _held_as(main: Lease | None) -> HeldNow:
    if main is None:
        return HeldNow.NOTHING
    if not main.is_spot:
        return HeldNow.ON_DEMAND
    return HeldNow.PAUSED if main.state is LeaseState.PAUSED else HeldNow.RUNNING
