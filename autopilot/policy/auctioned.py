"""Decisions where spot machines are auctioned off and enough of their floors was recorded: the bid is part of it.

The prices of all options come from ``auction``. Here they become actions, within what the market can do and what the
job file and the budget allow. Bids change while a machine runs, up and down, but not more often than ``rebid_gap_s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from heapq import nsmallest
from math import inf

from autopilot.domain.actions import Acquire, Action, ChangeBid, Note, Release, SaveAndStop
from autopilot.domain.floors import AuctionShape
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import is_beaten
from autopilot.policy import budget
from autopilot.policy.markups import follow_record, free_slack_h, markup_note, tight_slack_h
from autopilot.policy.options import is_affordable, option_note, why_not_cheaper
from autopilot.policy.situation import Answer, Situation
from autopilot.policy.uncertified import fits_room
from autopilot.pricing.auction.options import Held, Margins, Position, Quote, Quotes, SpotMachine, choice, quotes
from autopilot.pricing.auction.replays import MOVE_RATIO
from autopilot.pricing.auction.tables import auction_tables
from autopilot.pricing.pressure import Pressure, is_at_work
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate

NOTED_BIDS = 3


def is_auctioned(situation: Situation) -> bool:
    """Whether this job's options can be priced as an auction now."""
    pressure = situation.pressure
    has_table = situation.market.outlook.auction is not None and situation.market.may_have_spot
    has_time = pressure.slack is not None and not pressure.is_past
    return has_table and has_time and situation.job.spec.fall_back


def by_auction(situation: Situation) -> Answer:
    """The cheapest option from the job's state: nothing, a machine that works or loads, or one that is paused."""
    shape = situation.market.outlook.auction
    assert shape is not None
    return _Auctioned(situation, shape).answer()


def wait_share(job: Job, pressure: Pressure, shape: AuctionShape, params: Params) -> float:
    """The share of all that remains which waiting must promise to save: the more, the scarcer slack is.

    A market that does not calm down as expected takes the slack with it, a step after the other.
    """
    slack_s = pressure.left_s - pressure.work_s
    if not shape.shows_running:
        scarcity = max(1.0 - slack_s / 3600 / params.auction.wait_slack_h, 0.0)
        return params.auction.wait_margin * scarcity
    assert job.spec.deadline is not None
    assert job.spec.work_estimate is not None
    work_s = job.spec.work_estimate.total_seconds()
    first_left_s = (job.spec.deadline - job.submitted_at).total_seconds()
    first_slack_s = max(first_left_s - work_s, 1.0)
    used = min(max(1.0 - slack_s / first_slack_s, 0.0), 1.0)
    return params.auction.wait_margin_shown * used * work_s / first_slack_s


@dataclass(frozen=True, slots=True)
class _Auctioned:
    """The pricing of one decision on an auction."""

    situation: Situation
    shape: AuctionShape

    def answer(self) -> Answer:
        situation, params = self.situation, self.situation.params
        tables, main = auction_tables(self.shape), situation.job.main
        bids = {candidate.offer.machine_id: candidate for candidate in situation.candidates.of_type(CapacityType.SPOT)}
        spots = [self._spot(machine, candidate) for machine, candidate in bids.items()]
        if main is not None and main.is_spot:
            spots.append(SpotMachine(main.machine_id, self._own_floor(main)))
        position = self._position(main)
        quoted = quotes(tables, position, spots, float(params.auction.least_markup))
        quoted = self._possible(quoted, main, bids)
        waiting = wait_share(situation.job, situation.pressure, self.shape, params)
        numbers = params.auction
        # A risked pause takes minutes, a wait as long as prices stay high.
        least = 0.0 if self.shape.shows_running else numbers.least_wait_margin
        margins = Margins(numbers.move_margin, max(waiting, least), waiting, numbers.rebid_margin)
        following = follow_record(situation) if self._is_tight(quoted) else None
        markup = float(params.auction.tight_markup) if following is None else following.markup
        chosen = self._plain(quoted, main, spots, bids, markup) if self._is_tight(quoted) else None
        chosen = chosen or choice(quoted, position, margins, tables.step_s)
        notes = self._notes(quoted, chosen, main)
        return self._actions(quoted, chosen, main, bids), notes if following is None else (
            *notes,
            markup_note(following),
        )

    def _is_tight(self, quoted: Quotes) -> bool:
        """Whether so little slack is left that each loss counts for more than a better price."""
        if self.shape.shows_running or quoted.is_forced:
            return False
        return free_slack_h(self.situation) < tight_slack_h(self.situation)

    def _plain(
        self,
        quoted: Quotes,
        main: Lease | None,
        spots: Sequence[SpotMachine],
        bids: dict[str, Candidate],
        markup: float,
    ) -> Quote | None:
        """A bid on the cheapest machine, well above its floor; who runs stays. None: the tables decide.

        On-demand capacity, once it runs, is left by the tables alone.
        """
        if main is not None and not main.is_spot:
            return None
        startable = {quote.machine: quote for quote in quoted.bids}
        if main is not None:
            startable.pop(main.machine_id, None)
        work_h = max(self.situation.pressure.work_s, 1.0) / 3600
        # Where the bid is not paid, what is bid is the most that would be.
        paid = markup if self.shape.bills_at_bid else 1.0
        hourly = [
            (spot.floor * paid + spot.once / work_h, spot.machine, spot.floor * markup)
            for spot in spots
            if spot.floor and spot.machine in startable and spot.floor * markup < self.shape.ceiling
        ]
        cost, cheapest, bid = min(hourly, default=(inf, "", 0.0))
        bid = bid if self.shape.bills_at_bid else self.shape.ceiling
        if main is not None and quoted.stay is not None and float(main.computes_at) <= MOVE_RATIO * cost:
            return quoted.stay
        if not cheapest:
            return None
        wanted = replace(startable[cheapest], bid=bid)
        return wanted if self._can_start(wanted, bids) else None

    def _position(self, main: Lease | None) -> Position:
        pressure = self.situation.pressure
        worst_extra_s = pressure.upper_work_s - pressure.work_s
        if main is None:
            return Position(pressure.left_s, pressure.work_s, worst_extra_s=worst_extra_s, look_s=pressure.step_s)
        held = _held_as(main)
        is_running = held is Held.RUNNING
        return Position(
            left_s=pressure.left_s,
            work_s=pressure.work_s,
            thrown_back_s=self._thrown_back_s() if is_running else 0.0,
            worst_extra_s=worst_extra_s,
            held=held,
            machine=main.machine_id if main.is_spot else "",
            is_set_up=main.agent.boot > 0,
            pending_s=self._pending_s(main),
            bid=float(main.bid) if main.is_spot else 0.0,
            bid_age_s=self._bid_age_s(main) if is_running else 0.0,
            look_s=pressure.step_s,
        )

    def _thrown_back_s(self) -> float:
        """Work done since the last checkpoint."""
        job = self.situation.job
        saved = job.checkpoint.work_done if job.checkpoint else timedelta(0)
        return max((job.work_done - saved).total_seconds(), 0.0)

    def _pending_s(self, main: Lease) -> float:
        """What a machine that loads still has to serve before work goes on."""
        if main.state is LeaseState.PAUSED or is_at_work(main):
            return 0.0
        started = main.observed.running_since or main.acquired_at or main.intended_at
        whole_s = self.shape.resume_s if main.agent.boot > 1 else self.shape.migrate_s
        return max(whole_s - (self.situation.now - started).total_seconds(), 0.0)

    def _bid_age_s(self, main: Lease) -> float:
        """For how long it has run under its bid."""
        running_since = main.observed.running_since
        if running_since is None:
            return 0.0
        since = max(running_since, main.bidding.changed_at or running_since)
        return (self.situation.now - since).total_seconds()

    def _spot(self, machine: str, candidate: Candidate) -> SpotMachine:
        assert candidate.offer.floor is not None, "no bid is made without a floor"
        shape, situation = self.shape, self.situation
        dearer_disk = float(candidate.offer.storage_rate(situation.job.spec.disk_gb)) - shape.storage_rate
        slower_s = max(candidate.setup.total_seconds() - shape.migrate_s, 0.0)
        burn = float(candidate.expected_price) + shape.storage_rate + dearer_disk
        held_s = situation.pressure.work_s + shape.migrate_s
        more = (dearer_disk * held_s + slower_s * burn) / 3600
        return SpotMachine(machine, float(candidate.offer.floor), float(candidate.traffic) + more)

    def _own_floor(self, main: Lease) -> float | None:
        """The floor of the machine that we hold, if the market's floor of it does not echo our own bid."""
        for offer in self.situation.market.offers:
            if (offer.provider, offer.machine_id) == (main.provider, main.machine_id):
                return None if offer.floor is None else float(offer.floor)
        if self.shape.bills_at_bid:
            return None
        # What all pay is what it costs.
        is_paused = main.state is LeaseState.PAUSED
        found = main.observed.price_to_win if is_paused else main.computes_at if main.has_run else None
        return None if found is None else float(found)

    def _possible(self, quoted: Quotes, main: Lease | None, bids: dict[str, Candidate]) -> Quotes:
        """Without what this market cannot do or the budget does not reach."""
        mine = main.machine_id if main is not None and main.is_spot else ""
        # Nothing pauses a machine that we want to keep.
        keep = quoted.keep if main is None or main.state is LeaseState.PAUSED else None
        on_demand, is_forced = quoted.on_demand, quoted.is_forced
        if main is None or main.is_spot:
            candidate = self.situation.candidates.best(CapacityType.ON_DEMAND)
            if candidate is None or not self._can_pay(candidate):
                on_demand, is_forced = Quote(inf), False
            elif candidate.traffic:
                on_demand = replace(on_demand, cost=on_demand.cost + float(candidate.traffic))
        startable = tuple(quote for quote in quoted.bids if quote.machine == mine or self._can_start(quote, bids))
        reduce_bid = quoted.reduce_bid if main is None or self._may_lower(main) else None
        return replace(
            quoted, on_demand=on_demand, keep=keep, bids=startable, reduce_bid=reduce_bid, is_forced=is_forced
        )

    def _may_lower(self, main: Lease) -> bool:
        """Not soon after a bid that won the machine back: a lower one would only be lost again."""
        changed_at, gap_s = main.bidding.changed_at, self.situation.params.auction.lower_gap_s
        return changed_at is None or (self.situation.now - changed_at).total_seconds() >= gap_s

    def _can_start(self, quote: Quote, bids: dict[str, Candidate]) -> bool:
        """Whether the budget, and the allowance of its market, cover a start and a stop of it at that bid."""
        situation = self.situation
        candidate = bids[quote.machine]
        if situation.job.spec.budget is None and not self._is_bounded(candidate):
            return True
        at_bid = replace(candidate, bid=self._first_bid(quote, candidate))
        is_paid = is_affordable(situation.job, at_bid, situation.params)
        return is_paid and fits_room(situation.job, at_bid, situation.market, situation.params)

    def _is_bounded(self, candidate: Candidate) -> bool:
        """By the allowance of a market without a certificate."""
        return self.situation.market.room_on(self.situation.job, candidate.offer.provider) is not None

    def _can_pay(self, on_demand: Candidate) -> bool:
        """A start and a stop of it; and, when it would be for good, all the rest."""
        job, pressure, params = self.situation.job, self.situation.pressure, self.situation.params
        left = budget.left(job, params)
        if left is None:
            return True
        if not is_affordable(job, on_demand, params):
            return False
        burn = float(on_demand.expected_price + on_demand.offer.storage_rate(job.spec.disk_gb))
        return float(left) >= burn * (pressure.work_s + pressure.to_on_demand_s) / 3600

    def _actions(
        self, quoted: Quotes, chosen: Quote, main: Lease | None, bids: dict[str, Candidate]
    ) -> tuple[Action, ...]:
        if chosen is quoted.keep or chosen is quoted.stay:
            return ()
        if not quoted.is_forced and not self._may_go(chosen, main):
            return ()
        if chosen is quoted.release:
            return () if main is None else self._leave(main, Reason.WAITING_FOR_PRICE)
        if chosen is quoted.on_demand:
            return self._take_on_demand(main, is_forced=quoted.is_forced)
        if main is not None and main.is_spot and chosen.machine == main.machine_id:
            unit = self.situation.params.bids.unit
            return self._rebid(main, Decimal(chosen.bid).quantize(unit, ROUND_CEILING))
        reason = Reason.CHEAPEST if main is None else Reason.CHEAPER_ELSEWHERE
        candidate = bids[chosen.machine]
        return self._take(main, candidate, self._first_bid(chosen, candidate), reason)

    def _take_on_demand(self, main: Lease | None, *, is_forced: bool) -> tuple[Action, ...]:
        on_demand = self.situation.candidates.best(CapacityType.ON_DEMAND)
        if on_demand is None or (main is not None and not main.is_spot):
            return ()
        return self._take(main, on_demand, on_demand.bid, Reason.DEADLINE if is_forced else Reason.CHEAPEST)

    def _first_bid(self, quote: Quote, candidate: Candidate) -> Decimal:
        """What is really bid on a machine that is not held: not too near its floor, and within the job's limits."""
        offer, params = candidate.offer, self.situation.params
        assert offer.floor is not None, "no bid is made without a floor"
        spec, unit = self.situation.job.spec, params.bids.unit
        view = self.situation.market.providers.get(offer.provider)
        least = (offer.floor * params.auction.least_markup).quantize(unit, ROUND_CEILING)
        if view is not None and view.capabilities.rebid_needs_stop:
            least = max(least, candidate.bid)  # while it runs no other can be made
        bid = max(Decimal(quote.bid).quantize(unit, ROUND_CEILING), least)
        highest = ceiling(spec, offer.on_demand_price, params)
        if highest is not None:
            bid = min(bid, highest)
        if spec.max_rate is not None:
            left = spec.max_rate - offer.storage_rate(spec.disk_gb)
            bid = min(bid, left.quantize(unit, ROUND_FLOOR))
        return bid

    def _take(self, main: Lease | None, candidate: Candidate, bid: Decimal, reason: Reason) -> tuple[Action, ...]:
        """Rent it: at once, beside a machine that works until the new one is ready, or in place of a paused one. Where an
        allowance lets one machine be there, the paused one has to be gone before."""
        is_paused = main is not None and main.state is LeaseState.PAUSED
        slot = Slot.MAIN if main is None or is_paused else Slot.NEXT
        take = Acquire(slot, candidate.offer, candidate.capacity_type, bid, reason)
        if main is None or not is_paused:
            return (take,)
        leave = Release(main.id, main.observed.pause_cause or Reason.UNKNOWN)
        is_one = main.provider == candidate.offer.provider and self._is_bounded(candidate)
        return (leave,) if is_one else (leave, take)

    def _may_go(self, chosen: Quote, main: Lease | None) -> bool:
        """A machine that loads or has just begun is not left for a price alone.

        Unless its own floor is shown: where that rises, who stays is paused and loses work.
        """
        least_s = self.situation.params.moves.least_stay_s
        if main is None or main.state is LeaseState.PAUSED or not least_s or self.shape.shows_running:
            return True
        if main.is_spot and chosen.machine == main.machine_id:
            return True
        running_since = main.observed.running_since
        return running_since is not None and self.situation.now - running_since >= timedelta(seconds=least_s)

    def _leave(self, main: Lease, reason: Reason) -> tuple[Action, ...]:
        """Nothing unsaved is given up: a machine at work saves first."""
        return (SaveAndStop(main.id, reason),) if is_at_work(main) else (Release(main.id, reason),)

    def _rebid(self, main: Lease, bid: Decimal) -> tuple[Action, ...]:
        params = self.situation.params
        view = self.situation.market.providers.get(main.provider)
        highest = ceiling(self.situation.job.spec, main.on_demand_price, params)
        if view is None or not view.capabilities.can_rebid or highest is None:
            return ()
        if view.capabilities.rebid_needs_stop and main.state is not LeaseState.PAUSED:
            # Work would be thrown back for it.
            return ()
        bid = min(bid, highest)
        since = main.bidding.changed_at
        gap = timedelta(seconds=params.auction.rebid_gap_s)
        is_too_soon = since is not None and self.situation.now - since < gap
        is_in_vain = main.state is LeaseState.PAUSED and bid > main.bid and not is_beaten(main)
        if bid == main.bid or is_too_soon or is_in_vain:
            return ()
        reason = Reason.OUTBID if main.state is LeaseState.PAUSED else Reason.FLOOR_MOVED
        return (ChangeBid(main.id, bid, reason),)

    def _notes(self, quoted: Quotes, chosen: Quote, main: Lease | None) -> tuple[Note, ...]:
        provider = main.provider if main is not None else None
        best_bids = nsmallest(NOTED_BIDS, quoted.bids, key=lambda quote: quote.cost)
        rows = [
            ("on_demand", quoted.on_demand),
            ("wait", quoted.release),
            ("keep", quoted.keep),
            ("stay", quoted.stay),
            ("patient", quoted.patient),
            ("reduce_bid", quoted.reduce_bid),
            *(("spot", quote) for quote in best_bids),
        ]
        if chosen not in [quote for _, quote in rows]:
            rows.append(("spot", chosen))
        because = "little_slack" if self._is_tight(quoted) else "small_saving"
        return tuple(
            option_note(
                name,
                None if quote.cost == inf else quote.cost,
                bid=quote.bid or None,
                provider=provider,
                machine=quote.machine or None,
                refused="deadline"
                if quoted.is_forced and quote is not quoted.on_demand
                else why_not_cheaper(quote.cost, chosen.cost, because),
                chosen=quote is chosen,
            )
            for name, quote in rows
            if quote is not None
        )


def _held_as(main: Lease) -> Held:
    if not main.is_spot:
        return Held.ON_DEMAND
    return Held.PAUSED if main.state is LeaseState.PAUSED else Held.RUNNING
