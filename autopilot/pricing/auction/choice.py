"""Which machine to be on and at what bid, where spot machines are auctioned: a guarantee, a bid, a reserve.

With t hours to the deadline, w hours of work left, e held for a wrong estimate, L from a decision to the first new step
on another machine (a high percentile, failed tries included: ``first_step``), c the on-demand price, S = t − w − e:

1. Guarantee. A machine that runs or loads is kept while unsaved + w + e + L < t. Without one it is on demand where
   S ≤ L + a usual start: a try on spot that takes longer than usual is given up for on demand by the line above.
   Only the budget outranks it: on-demand capacity that cannot be paid to the end is none.
2. Bid. Of all markups m, with price p and lost hours ρ for an hour of work by the shadows (``shadows``), the one of
   least

       J(m) = p · x + c · (w − x)        x = min(w, (S − reserve) / (fear · ρ))

   a fluid programme in certainty equivalents: x hours on spot until the slack is used up, on demand for the rest.
   Without a deadline, or without on-demand capacity, x = w: the least dollars for an hour of work.
3. Reserve. Slack is short where S < reserve + κ · fear · ρ · w. A bid must then be cheaper than on demand together with
   what the losses of the last hours would cost, at λ = (c − p) / (fear · ρ) for an hour lost.

A machine that a rival took soon after the last bid is bid on at what the next machine costs, which a rival as well
would rather take, and left where that is cheaper: step by step both would lose more time than the steps are worth.

A move pays for itself: what it saves over the next hours is more than what it costs, so the dollars that are moved away
in an hour of work are bounded by what was saved. No machine is left for a price within ``rest_h`` of its start. Where
spot costs no less than on demand in the long run, it is neither begun nor gone back to, and one that runs is kept while
it is as cheap: then it is left for on demand, by the same measure as for another machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import inf

from autopilot.domain.floors import Bidders
from autopilot.domain.same import Same
from autopilot.pricing.auction.shadows import Expected, LossCosts, expect


@dataclass(frozen=True, slots=True)
class ChoiceNumbers:
    """Chosen on the choosing half of recorded and made-up markets, and flat around these values."""

    fear: float = 2.5
    """Factor on the loss rate that was seen: slack that is spent does not come back."""
    reserve_h: float = 0.5
    """Hours of slack that no plan counts on."""
    kappa: float = 0.5
    """Share of the feared losses to come below which slack is short."""
    scarce: float = 2.0
    """So many times the feared losses to come, below which moves pay for the slack that they take."""
    storm: float = 0.2
    """Share of the time lost in the last hours that a bid must outweigh while slack is short."""
    most_storm: float = 20.0
    """Hours lost for an hour of work, at the most, that a storm is taken for."""
    least_lost: float = 0.03
    """Hours lost for an hour of work, at the least, where slack is turned into dollars."""
    horizon_h: float = 6.0
    """For so long at the most a saving is believed to last."""
    rest_h: float = 0.5
    """No machine is left for a price so soon after it began."""
    move_ratio: float = 1.05
    """A machine is left for a price only where its bid is more than that many times the other's."""
    raise_ratio: float = 1.15
    """One that was lost is bid on again where it costs no more than that many times the cheapest, if its last bid had
    held for ``lasting_h``."""
    lasting_h: float = 2.0
    """Hours. A bid that was beaten within ``rest_h`` was beaten by a rival who will bid again; after so many the floor
    has risen."""
    least_lasted_h: float = 0.1
    """Hours for which a bid is taken to have held, at the least: a list is a few minutes old."""
    move_h: float = 0.1
    """Hours of two machines that are paid for a move."""
    move_lost_h: float = 0.06
    """Hours of slack that a move from a machine that runs takes."""
    leave_lost_h: float = 0.13
    """The same from one that was lost."""
    hysteresis: float = 1.5
    """On demand is left only where slack is more than that many times the reserve, and a start."""
    last_markup: float = 1.02
    """Where the wanted bid is above the limit."""


NUMBERS = ChoiceNumbers()


class HeldNow(Enum):
    NOTHING = "nothing"
    PAUSED = "paused"
    """A spot machine that was lost to a bid and may be won back."""
    RUNNING = "running"
    """A spot machine, at work or loading."""
    ON_DEMAND = "on demand"


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """Where one job is. Hours, $, $/h."""

    left_h: float
    """To the deadline; infinite without one."""
    work_h: float
    """w."""
    held_h: float
    """e."""
    unsaved_h: float
    """Work that a loss now would throw away."""
    first_step_h: float
    """L."""
    costs: LossCosts
    held: HeldNow = HeldNow.NOTHING
    machine: str = ""
    """The spot machine that is held, if any."""
    bid: float = 0.0
    since_h: float = inf
    """For how long it has held what it holds."""
    lasted_h: float = inf
    """Of a machine that was lost: for how long the last bid has held it."""
    budget: float = inf
    """What it may still spend."""

    @property
    def slack_h(self) -> float:
        """S."""
        return self.left_h - self.work_h - self.held_h


@dataclass(frozen=True, slots=True)
class AuctionedMachine:
    """A spot machine that can be had. $/h and $."""

    name: str
    floor: float
    once: float = 0.0
    """That a start there costs beside its hours: traffic."""
    storage_rate: float = 0.0
    """Of its disk, which is paid beside the bid."""


@dataclass(frozen=True, slots=True)
class OpenAuction:
    """What can be had now of one kind of GPU, and what its shadows know."""

    machines: Sequence[AuctionedMachine]
    bidders: Bidders
    on_demand: float
    """c, disk included; infinite where there is none."""
    limit: float
    """No bid is as high."""
    pays_bid: bool = True
    """Else all pay the floor, and the bid is the most that would be paid."""


class Do(Enum):
    WAIT = "wait"
    """Nothing runs; a machine that was lost stays paused."""
    BID = "bid"
    """On ``BidChoice.machine``: a start, a move, or a raise where that is held."""
    STAY = "stay"
    ON_DEMAND = "on demand"


@dataclass(frozen=True, slots=True)
class BidChoice:
    do: Do
    machine: str = ""
    bid: float = 0.0
    is_forced: bool = False
    """By the deadline."""


@dataclass(frozen=True, slots=True)
class BidPlan:
    """The markup to bid by."""

    expected: Expected
    cost: float
    """J, $ to the end of the work."""


def choose(work: WorkLeft, auction: OpenAuction) -> BidChoice:
    """Equal arguments give equal answers."""
    on_demand = _within(work, auction)
    if on_demand < inf and is_forced(work):
        return BidChoice(Do.ON_DEMAND, is_forced=True)
    plan = plan_bid(work, auction)
    if plan is None:
        return _without_bid(work, on_demand, is_short=work.left_h < inf)
    return _Chooser(work, auction, plan, on_demand).choose()


def is_forced(work: WorkLeft) -> bool:
    """Whether only on-demand capacity, at any price, still meets the deadline."""
    if work.held is HeldNow.ON_DEMAND:
        return False
    if work.held is HeldNow.RUNNING:
        return work.unsaved_h + work.work_h + work.held_h + work.first_step_h >= work.left_h
    return work.slack_h <= work.first_step_h + work.costs.start_h


def plan_bid(work: WorkLeft, auction: OpenAuction) -> BidPlan | None:
    """The markup of least J; None: no bid does any work."""
    on_demand = _within(work, auction)
    is_bound = work.left_h < inf and on_demand < inf
    free_h = max(work.slack_h - NUMBERS.reserve_h, 0.01)
    least = min((machine.floor for machine in auction.machines), default=None)
    best: BidPlan | None = None
    for expected in _expect_all(Same(auction.bidders), work.costs, None if auction.bidders.are_warm else least):
        cost = expected.price * work.work_h
        feared = NUMBERS.fear * expected.lost
        if is_bound and free_h < feared * work.work_h:
            spot_h = free_h / feared
            cost = expected.price * spot_h + on_demand * (work.work_h - spot_h)
        if best is None or cost < best.cost:
            best = BidPlan(expected, cost)
    return best


@lru_cache(maxsize=64)
def _expect_all(bidders: Same[Bidders], costs: LossCosts, floor: float | None) -> tuple[Expected, ...]:
    """Of the markups by which any work is done. Kept: bidders see something new every few minutes, a job decides more
    often."""
    found = (expect(tally, costs, floor) for tally in bidders.value.tallies)
    return tuple(each for each in found if each is not None)


def _within(work: WorkLeft, auction: OpenAuction) -> float:
    """The on-demand price, infinite where the budget does not reach to the end of the work at it."""
    hours = work.work_h + work.costs.start_h
    return auction.on_demand if auction.on_demand * hours <= work.budget else inf


def _without_bid(work: WorkLeft, on_demand: float, *, is_short: bool) -> BidChoice:
    if work.held in (HeldNow.ON_DEMAND, HeldNow.RUNNING):
        return BidChoice(Do.STAY)
    return BidChoice(Do.ON_DEMAND) if is_short and on_demand < inf else BidChoice(Do.WAIT)


@dataclass(frozen=True, slots=True)
class _Chooser:
    """What the deadline leaves open, by the plan."""

    work: WorkLeft
    auction: OpenAuction
    plan: BidPlan
    on_demand: float
    """Infinite where there is none, or the budget does not reach."""

    def choose(self) -> BidChoice:
        if self.work.held is HeldNow.ON_DEMAND:
            return self._while_on_demand()
        if self.work.held is HeldNow.RUNNING:
            return self._while_running()
        if self._costs_no_less:
            return BidChoice(Do.ON_DEMAND)
        target = self._target()
        bid = None if target is None else self._bid(target)
        if target is None or bid is None or not self._is_worth(bid):
            return _without_bid(self.work, self.on_demand, is_short=self._is_short)
        return BidChoice(Do.BID, target.name, bid)

    @property
    def _costs_no_less(self) -> bool:
        """Whether spot is no cheaper than on demand in the long run, however cheap it is now."""
        return self.plan.expected.price >= self.on_demand

    @property
    def _short_h(self) -> float:
        """Hours of slack below which it is short."""
        return NUMBERS.reserve_h + NUMBERS.kappa * self._feared * self.work.work_h

    @property
    def _is_short(self) -> bool:
        return self.work.slack_h < self._short_h

    @property
    def _feared(self) -> float:
        return NUMBERS.fear * self.plan.expected.lost

    @property
    def _time_price(self) -> float:
        """λ: $ for an hour of slack, where it is scarce."""
        scarce_h = NUMBERS.reserve_h + NUMBERS.scarce * self._feared * self.work.work_h
        if self.on_demand == inf or self.work.slack_h >= scarce_h:
            return 0.0
        return max(self.on_demand - self.plan.expected.price, 0.0) / max(self._feared, NUMBERS.least_lost)

    @property
    def _saving_h(self) -> float:
        return min(self.work.work_h, NUMBERS.horizon_h)

    @property
    def _markup(self) -> float:
        return self.plan.expected.markup

    @property
    def _lasted(self) -> float:
        """1.0: the bid that was lost had held for long. 0.0: a rival beat it soon, and will again."""
        beyond_h = self.work.lasted_h - NUMBERS.rest_h
        return min(max(beyond_h / (NUMBERS.lasting_h - NUMBERS.rest_h), 0.0), 1.0)

    def _hourly(self, machine: AuctionedMachine) -> float:
        """$/h there, with what a start costs spread over the hours of a saving."""
        paid = machine.floor * (self._markup if self.auction.pays_bid else 1.0)
        is_held = machine.name == self.work.machine
        return paid + machine.storage_rate + (0.0 if is_held else machine.once / max(self._saving_h, 0.1))

    def _cheapest(self) -> AuctionedMachine | None:
        # Of many hundred machines: the same as the least by ``_hourly``, in one go.
        markup, spread = self._markup if self.auction.pays_bid else 1.0, 1.0 / max(self._saving_h, 0.1)
        machines = self.auction.machines
        best = min(
            machines, key=lambda each: each.floor * markup + each.storage_rate + each.once * spread, default=None
        )
        mine = self._mine()
        return best if best is None or mine is None or self._hourly(best) < self._hourly(mine) else mine

    def _mine(self) -> AuctionedMachine | None:
        """The machine that is held, where its floor is shown."""
        name = self.work.machine
        return next((each for each in self.auction.machines if each.name == name), None) if name else None

    def _target(self) -> AuctionedMachine | None:
        """The cheapest machine, or the one that was lost where leaving it does not pay."""
        cheapest, mine = self._cheapest(), self._mine()
        if cheapest is None or mine is None or mine is cheapest:
            return cheapest
        least, own = self._hourly(cheapest), self._hourly(mine)
        costs = NUMBERS.leave_lost_h * self._time_price + NUMBERS.move_h * least
        ratio = 1.0 + (NUMBERS.raise_ratio - 1.0) * self._lasted
        # The next bid is taken to hold for as long.
        again = (
            own
            * (self.work.costs.again_h + self.work.costs.checkpoint_h / 2)
            / max(self.work.lasted_h, NUMBERS.least_lasted_h)
        )
        stays = own <= ratio * least or costs > (own + again - least) * self._saving_h
        return mine if stays else cheapest

    def _bid(self, machine: AuctionedMachine) -> float | None:
        """None: nothing below the limit would win."""
        limit, bid = self.auction.limit, machine.floor * self._markup
        if not self.auction.pays_bid:
            return min(bid, (machine.floor + limit) / 2) if machine.floor < limit else None
        against_rival = self._against_rival(machine)
        if bid < against_rival < limit:
            return against_rival
        if bid < limit:
            return bid
        bid = machine.floor * min(NUMBERS.last_markup, self._markup)
        return bid if bid < limit else None

    def _against_rival(self, machine: AuctionedMachine) -> float:
        """The sooner the last bid for it was lost, the nearer to what the next machine costs."""
        if machine.name != self.work.machine or self._lasted >= 1.0:
            return 0.0
        others = (each for each in self.auction.machines if each is not machine)
        next_one = min((self._hourly(each) for each in others), default=0.0) - machine.storage_rate
        return machine.floor + (1.0 - self._lasted) * (next_one - machine.floor)

    def _is_worth(self, bid: float) -> bool:
        """Whether a bid is better than on demand, or than to wait, as slack is."""
        if not self._is_short or self.on_demand == inf:
            return True
        storm = expect(self.auction.bidders.storm, self.work.costs)
        lost = NUMBERS.most_storm if storm is None else min(storm.lost, NUMBERS.most_storm)
        return bid + NUMBERS.storm * lost * self._time_price < self.on_demand

    def _while_running(self) -> BidChoice:
        stay, cheapest = BidChoice(Do.STAY), self._cheapest()
        if self.work.since_h < NUMBERS.rest_h:
            return stay
        if self._costs_no_less and self._pays_to_move(self.on_demand):
            return BidChoice(Do.ON_DEMAND)
        if cheapest is None or cheapest.name == self.work.machine:
            return stay
        bid = self._bid(cheapest)
        if bid is None or not self._pays_to_move(self._hourly(cheapest)):
            return stay
        return BidChoice(Do.BID, cheapest.name, bid)

    def _pays_to_move(self, there: float) -> bool:
        """From the machine that runs to one of so many $/h."""
        here = self._here()
        costs = NUMBERS.move_h * here + NUMBERS.move_lost_h * self._time_price
        return here > NUMBERS.move_ratio * there and (here - there) * self._saving_h > costs

    def _here(self) -> float:
        """$/h of the machine that runs."""
        mine = self._mine()
        if mine is None:
            return self.work.bid
        return mine.storage_rate + (self.work.bid if self.auction.pays_bid else min(mine.floor, self.work.bid))

    def _while_on_demand(self) -> BidChoice:
        """Back to spot after a rest, if the hours that slack lasts there save more than the way."""
        stay, cheapest = BidChoice(Do.STAY), self._cheapest()
        first_step_h, on_demand = self.work.first_step_h, self.auction.on_demand
        free_h = self.work.slack_h - first_step_h - NUMBERS.hysteresis * NUMBERS.reserve_h
        if cheapest is None or self._costs_no_less or self.work.since_h < NUMBERS.rest_h or free_h <= 0.0:
            return stay
        bid, hours = self._bid(cheapest), min(self._saving_h, free_h / max(self._feared, 1e-9))
        if bid is None or not self._is_worth(bid):
            return stay
        gain = (on_demand - self._hourly(cheapest)) * hours
        return BidChoice(Do.BID, cheapest.name, bid) if gain > first_step_h * on_demand else stay
