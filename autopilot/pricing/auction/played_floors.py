"""Many auctions played through by what was recorded of the cheapest floor, each under the very decision of the daemon.

    path    from a moment of the record whose floor was near that of now on, step by step; after about half a day
            on from any other moment (a block bootstrap: Künsch, Annals of Statistics 17, 1989)
    level   one factor a market: a week of record is not all that a market does
    dearth  now and then there is nothing below the limit for hours, whether the record has such a stretch or not
    losses  as often as simulated bidders of that markup had them, and where the cheapest is far above the bid

``choice.choose`` decides each step, by what simulated bidders have seen until now. The numbers of the markets were
chosen on made-up ones: ``docs/research/2026-11-calibration.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, inf, log
from typing import TYPE_CHECKING

from autopilot.domain.floors import Bidders
from autopilot.pricing.arrays import Flags, Floats
from autopilot.pricing.auction.choice import AuctionedMachine, BidChoice, Do, HeldNow, OpenAuction, WorkLeft, choose
from autopilot.pricing.auction.shadows import PRIOR_LOST_ALWAYS, losses_per_h

if TYPE_CHECKING:
    from numpy.random import Generator

HOUR_S = 3600.0
RECORD_STEP_S = 600.0
"""Between two floors of the record."""
MOST_STEPS = 400
"""That are played; before a deadline further away they are longer."""
NEAREST = 0.2
"""Share of the record, nearest to the floor of now, from which paths begin."""
BLOCK_H = 12.0
"""After so many hours at the mean a path goes on elsewhere."""
LEVEL_SPREAD = 0.11
"""Standard deviation of the logarithm of a market's level, where a week or so was recorded."""
DEARTH_EVERY_H, DEARTH_H = 120.0, 8.0
OUTBID_ABOVE = 1.6
"""If the cheapest exceeds the bid by this factor, the bid is outbid."""
RAISED_BY = 1.05
"""A raise that wins a machine back, as a factor. Source: assumed."""
ENOUGH_H = 1e-9
CENT_FRACTION = 1e-9
HELD, OFFERED = "held", "offered"


@dataclass(frozen=True, slots=True)
class FloorsQuestion:
    """What a job is, and what it may do. Hours, $/h, $."""

    floors: tuple[float, ...]
    """The cheapest floor by the record, a step apart, oldest first; the last is that of now."""
    level_spread: float
    """Standard deviation of the logarithm of a market's level."""
    work: WorkLeft
    """As it is decided on now; what it holds has begun long ago."""
    bidders: Bidders
    limit: float
    """No bid is as high."""
    on_demand_price: float | None
    """None: the job does not fall back, and holds no such machine."""
    storage_rate: float
    pays_bid: bool
    left_h: float
    """That are played: to the deadline, or so many that the end is among them."""
    estimate_error: float
    """The true work lies evenly within this share of the estimate, above or below."""
    budget: float | None = None

    def due_in(self, left_h: float) -> FloorsQuestion:
        """The same with another deadline."""
        work = self.work if self.work.left_h == inf else replace(self.work, left_h=left_h)
        return replace(self, left_h=left_h, work=work)


class PlayedFloors:
    """What a job did and paid in each market; complete after ``play``. Fields as in ``PlayedMarkets``."""

    going: Flags
    on_time: Flags
    parked: Flags
    done_s: Floats
    true_s: Floats
    spent: Floats
    money: Floats
    preempted: Floats
    ended_s: Floats

    def __init__(self, asked: FloorsQuestion, runs: int, seed: int) -> None:
        self._asked, self._runs, self._seed = asked, runs, seed
        on_demand = asked.on_demand_price
        self.on_demand_burn = (asked.floors[-1] if on_demand is None else on_demand) + asked.storage_rate
        is_due = asked.work.left_h < inf
        self.rest_burn = self.on_demand_burn if is_due else asked.floors[-1] + asked.storage_rate

    def play(self) -> None:
        import numpy as np

        paths = _Paths(self._asked)
        runs = [_Run(paths, np.random.default_rng((self._seed, number))) for number in range(self._runs)]
        for run in runs:
            run.play()
        self.going = np.array([not run.is_over for run in runs])
        self.on_time = np.array([run.ended_h is not None for run in runs])
        self.parked = np.array([run.is_parked for run in runs])
        self.done_s = np.array([run.done_h for run in runs]) * HOUR_S
        self.true_s = np.array([run.true_h for run in runs]) * HOUR_S
        self.spent = np.array([run.spent for run in runs])
        self.money = np.full(self._runs, paths.money)
        self.preempted = np.array([float(run.losses) for run in runs])
        self.ended_s = np.array([np.nan if run.ended_h is None else run.ended_h * HOUR_S for run in runs])


class _Paths:
    """What is the same in all markets."""

    def __init__(self, asked: FloorsQuestion) -> None:
        self.asked = asked
        self.record_steps = max(ceil(asked.left_h * HOUR_S / RECORD_STEP_S / MOST_STEPS), 1)
        self.step_h = RECORD_STEP_S * self.record_steps / HOUR_S
        self.money = inf if asked.budget is None else asked.budget
        self.on_demand = inf if asked.on_demand_price is None else asked.on_demand_price
        self.elsewhere = 1.0 - exp(-self.step_h / BLOCK_H)
        now = log(asked.floors[-1])
        near = sorted(range(len(asked.floors)), key=lambda at: abs(log(asked.floors[at]) - now))
        self.begins = near[: max(int(NEAREST * len(near)), 1)]
        self._known = [(tally.markup, losses_per_h(tally)) for tally in asked.bidders.tallies]

    def losses_at(self, markup: float) -> float:
        """Losses an hour of a bid that is so many times the cheapest floor."""
        below = [losses for known, losses in self._known if known <= markup + 1e-9]
        return below[-1] if below else self._known[0][1]

    @cached_property
    def held_markup(self) -> float:
        return max(self.asked.work.bid / self.asked.floors[-1], 1.0)


class _Run:
    """One market."""

    def __init__(self, paths: _Paths, rng: Generator) -> None:
        asked = paths.asked
        self._paths, self._rng, self._asked = paths, rng, asked
        self._level = exp(asked.level_spread * rng.standard_normal())
        self._at, self._has_dearth = paths.begins[int(rng.integers(len(paths.begins)))], False
        self._price = asked.floors[self._at] * self._level
        self._left_h, self._since_h, self._pending_h = asked.left_h, asked.work.since_h, 0.0
        self._held: HeldNow = HeldNow.NOTHING if asked.work.held is HeldNow.PAUSED else asked.work.held
        self._bid, self._lost_per_h = asked.work.bid, paths.losses_at(paths.held_markup)
        self._start_h = asked.work.costs.start_h
        self.true_h = asked.work.work_h * (1.0 + asked.estimate_error * (2.0 * rng.random() - 1.0))
        self.done_h = self.spent = 0.0
        self.losses, self.is_parked = 0, False
        self.ended_h: float | None = None
        """Since the beginning; None: not yet."""

    @property
    def is_over(self) -> bool:
        return self.is_parked or self.ended_h is not None

    def play(self) -> None:
        while self._left_h > ENOUGH_H and not self.is_over:
            self._decide()
            if self._is_out_of_money():
                self.is_parked = True
                return
            self._work()
            self._next_price()
            self._lose()

    def _decide(self) -> None:
        work = self._work_left()
        chosen = choose(work, self._auction())
        if chosen.do is Do.BID:
            self._take_spot(chosen)
        elif chosen.do is Do.ON_DEMAND:
            self._begin(HeldNow.ON_DEMAND, self._start_h)

    def _work_left(self) -> WorkLeft:
        given = self._asked.work
        work_h = max(given.work_h - self.done_h, 0.0)
        # Once the estimate is used up, half of what it may yet be is reckoned with.
        reckoned_h = max(work_h, (work_h + given.held_h) / 2)
        is_spot = self._held is HeldNow.RUNNING
        return WorkLeft(
            left_h=given.left_h if given.left_h == inf else self._left_h,
            work_h=reckoned_h,
            held_h=work_h + given.held_h - reckoned_h,
            unsaved_h=min(self.done_h, given.costs.checkpoint_h / 2) if is_spot else 0.0,
            first_step_h=given.first_step_h + self._paths.step_h,
            costs=given.costs,
            held=self._held,
            machine=HELD if is_spot else "",
            bid=self._bid if is_spot else 0.0,
            since_h=self._since_h,
            budget=self._paths.money - self.spent,
        )

    def _auction(self) -> OpenAuction:
        asked = self._asked
        can_bid = self._price < asked.limit
        name = HELD if self._held is HeldNow.RUNNING and not asked.pays_bid else OFFERED
        machines = [AuctionedMachine(name, self._price)] if can_bid else []
        return OpenAuction(machines, asked.bidders, self._paths.on_demand, asked.limit, asked.pays_bid)

    def _take_spot(self, chosen: BidChoice) -> None:
        self._lost_per_h = self._paths.losses_at(chosen.bid / self._price)
        if self._held is HeldNow.NOTHING:
            pending_h = self._start_h
        else:
            # What works goes on until the new machine is ready, and both are paid.
            pending_h = 0.0
            self.spent += min(self._hourly(chosen.bid) * self._start_h, max(self._paths.money - self.spent, 0.0))
        self._bid = chosen.bid
        self._begin(HeldNow.RUNNING, pending_h)

    def _begin(self, held: HeldNow, pending_h: float) -> None:
        self._held, self._pending_h, self._since_h = held, pending_h, 0.0

    def _hourly(self, bid: float) -> float:
        paid = bid if self._asked.pays_bid else min(self._price, bid)
        return paid + self._asked.storage_rate

    @property
    def _burn(self) -> float:
        if self._held is HeldNow.NOTHING:
            return 0.0
        return self._paths.on_demand + self._asked.storage_rate if self._is_on_demand else self._hourly(self._bid)

    @property
    def _is_on_demand(self) -> bool:
        return self._held is HeldNow.ON_DEMAND

    def _is_out_of_money(self) -> bool:
        """Whether what is left does not pay another step."""
        rest_h = max(self._asked.work.work_h - self.done_h, 0.0) + self._pending_h
        step_h = min(max(rest_h, ENOUGH_H), self._paths.step_h)
        return self._paths.money - self.spent < self._burn * step_h - CENT_FRACTION

    def _work(self) -> None:
        step_h = self._paths.step_h
        if self._held is not HeldNow.NOTHING:
            served = min(self._pending_h, step_h)
            worked = min(self.true_h - self.done_h, step_h - served, max(self._left_h - served, 0.0))
            worked = min(worked, max((self._paths.money - self.spent) / max(self._burn, ENOUGH_H) - served, 0.0))
            self.spent += self._burn * (served + worked)
            self._pending_h -= served
            self.done_h += worked
            if self.done_h >= self.true_h - ENOUGH_H:
                self.ended_h = self._asked.left_h - self._left_h + served + worked
        self._left_h -= step_h
        self._since_h += step_h

    def _next_price(self) -> None:
        rng, paths = self._rng, self._paths
        is_elsewhere = rng.random() < paths.elsewhere
        count = len(self._asked.floors)
        self._at = int(rng.integers(count)) if is_elsewhere else (self._at + paths.record_steps) % count
        chance = paths.step_h / (DEARTH_H if self._has_dearth else DEARTH_EVERY_H)
        self._has_dearth ^= rng.random() < chance
        self._price = inf if self._has_dearth else self._asked.floors[self._at] * self._level

    def _lose(self) -> None:
        if self._held is not HeldNow.RUNNING or self.is_over:
            return
        is_far_below = self._price > OUTBID_ABOVE * self._bid
        is_taken = self._rng.random() < 1.0 - exp(-self._lost_per_h * self._paths.step_h)
        if not is_far_below and not is_taken:
            return
        costs = self._asked.work.costs
        is_outbid = not is_far_below and self._rng.random() >= PRIOR_LOST_ALWAYS / self._lost_per_h
        self.losses += 1
        self.spent += min(costs.loss_dollars, max(self._paths.money - self.spent, 0.0))
        self.done_h = max(self.done_h - costs.checkpoint_h / 2, 0.0)
        if is_outbid and self._price < self._asked.limit:
            # Won back at once, by a higher bid.
            self._pending_h, self._bid = costs.again_h, min(RAISED_BY * self._bid, self._asked.limit)
            return
        self._begin(HeldNow.NOTHING, 0.0)
