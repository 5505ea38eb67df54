"""What each option costs where spot machines are auctioned off: one step on the floors of now, then the tables.

The floors, the work and what a pause would throw back are taken as they are; what follows the next step is read from
the tables, at the levels that the floors are expected to be at then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from autopilot.domain.floors import RATIO_EDGES
from autopilot.pricing.arrays import Floats
from autopilot.pricing.auction.tables import AuctionTables, MachineTable, Odds

FIRST_ABOVE = next(number for number, edge in enumerate(RATIO_EDGES) if edge >= 1.0)
"""The first ratio bin whose upper edge as a bid is not below the floor."""
UNOBSERVED_MARKUP = 1.02
"""A machine that runs and whose floor is not shown, for it echoes our own bid, is taken to be won by so much: little,
for who thinks himself far above the floor stays where he is outbid next."""


SAME = 1e-9
"""Costs that differ by no more are taken to be the same."""


class Held(Enum):
    NOTHING = "nothing"
    PAUSED = "paused"
    RUNNING = "running"
    ON_DEMAND = "on_demand"


@dataclass(frozen=True, slots=True)
class SpotMachine:
    """A spot machine that may be bid on, or is."""

    machine: str
    floor: float | None
    """$/h; None if it is not known, and 0 says as little: it is not bid on, but a held one may be kept."""
    once: float = 0.0
    """$ that a start there costs beside what all machines have in common: traffic, a dearer disk, a slower link."""


@dataclass(frozen=True, slots=True)
class Position:
    """A job's state. Seconds, dollars."""

    left_s: float
    """Until the deadline."""
    work_s: float
    thrown_back_s: float = 0.0
    """Work that a pause now would throw back."""
    worst_extra_s: float = 0.0
    """Work that there may be beyond the estimate."""
    held: Held = Held.NOTHING
    machine: str = ""
    """The spot machine that is held."""
    is_set_up: bool = False
    """Whether a held machine needs but a resume to run again."""
    pending_s: float = 0.0
    """Set-up or resume time that what runs still has to serve."""
    bid: float = 0.0
    """The bid on the machine that is held, $/h."""
    bid_age_s: float = 0.0
    """For how long it has run under that bid."""
    look_s: float = 0.0
    """So soon is it decided again; 0: after a step of the tables."""


@dataclass(frozen=True, slots=True)
class Quote:
    """One option, and the expected dollars from here to the end."""

    cost: float
    machine: str = ""
    """For a bid; empty for the others."""
    bid: float = 0.0
    price: float = 0.0
    """$/h while it runs, disk included; of a bid: at the present floor or, where bids are paid, the bid."""
    risk: float = 0.0
    """Chance that a machine which runs is stopped by it at once."""


@dataclass(frozen=True, slots=True)
class Quotes:
    on_demand: Quote
    release: Quote
    """Hold nothing for now."""
    keep: Quote | None
    """Keep the machine paused, or pause it."""
    stay: Quote | None
    """Leave the bid on the held machine as it is."""
    bids: tuple[Quote, ...]
    """The best bid at or above the floor of each machine."""
    patient: Quote | None
    """The best bid below the floor of the machine that is held: it wins when the floor falls."""
    reduce_bid: Quote | None
    """A lower bid on the machine that runs, whose floor is not shown and may have fallen since the bid was made."""
    is_forced: bool
    """The deadline guard: on-demand capacity now, or it may not finish in time."""


@dataclass(frozen=True, slots=True)
class Margins:
    """By how much an expectation must be better before it is acted on.

    Each comparison is one of estimates, and the least of several estimates is too low at the mean.
    """

    move: float = 0.0
    """To another machine, as a share of what a step costs that runs."""
    wait: float = 0.0
    """Not running, as a share of all that is expected to be paid otherwise."""
    lower: float = 0.0
    """A lower bid that may stop the machine, as a share of the same, in proportion to that risk."""
    rebid: float = 0.0
    """To another bid on the same machine while it runs, as a share of what a step costs that runs."""


def quotes(
    tables: AuctionTables, position: Position, spots: Sequence[SpotMachine], least_markup: float = 1.0
) -> Quotes:
    """The price of each option from here; pure, some microseconds for each machine.

    ``spots`` are those that may be rented and, first or anywhere among them, the one that is held. A lower bid on that
    is at least ``least_markup`` times its calm floor.
    """
    return _Pricing(tables, position, spots).quotes(least_markup)


def choice(quoted: Quotes, position: Position, margins: Margins, step_s: float) -> Quote:
    """The option to take: the cheapest, but for the margins by which it must be cheaper."""
    if quoted.is_forced:
        return quoted.on_demand
    step_h = step_s / 3600
    best, least = quoted.on_demand, quoted.on_demand.cost
    own_margin = 0.0
    if quoted.stay is not None and position.held is Held.RUNNING:
        best, least = _cheaper(best, least, quoted.stay, 0.0)
        own_margin = margins.rebid * quoted.stay.price * step_h
    others = []
    for quote in quoted.bids:
        if quote.machine and quote.machine == position.machine:
            best, least = _cheaper(best, least, quote, own_margin)
        else:
            others.append(quote)
    for quote in others:
        move_margin = 0.0 if position.held is Held.NOTHING else margins.move * quote.price * step_h
        best, least = _cheaper(best, least, quote, move_margin)
    if quoted.reduce_bid is not None:
        margin = own_margin + margins.lower * quoted.reduce_bid.risk * least
        best, least = _cheaper(best, least, quoted.reduce_bid, margin)
    idle = [quote for quote in (quoted.release, quoted.keep, quoted.patient) if quote is not None]
    waiting = min(idle, key=lambda quote: quote.cost)
    is_running = best is not quoted.on_demand or position.held is Held.ON_DEMAND
    margin = margins.wait * least if is_running else 0.0
    return waiting if waiting.cost < least - margin else best


def _cheaper(best: Quote, least: float, quote: Quote, margin: float) -> tuple[Quote, float]:
    return (quote, quote.cost) if quote.cost < least - margin else (best, least)


class _Pricing:
    def __init__(self, tables: AuctionTables, position: Position, spots: Sequence[SpotMachine]) -> None:
        self.tables, self.position, self.spots = tables, position, spots
        shape, step_s = tables.shape, tables.step_s
        self.step_h = step_s / 3600
        self.storage = shape.storage_rate * self.step_h
        self.migrate, self.resume = shape.migrate_s / step_s, shape.resume_s / step_s
        # Time for work that there may be beyond the estimate is not there to be waited in: as the guard has it.
        self.next = int((position.left_s - position.worst_extra_s) / step_s + 1e-6) - 1
        """Whole steps left after this one."""
        self.work = max(position.work_s / step_s, 1e-3)
        self.thrown_back = position.thrown_back_s / step_s
        self.pending = position.pending_s / step_s
        self.is_on_demand = position.held is Held.ON_DEMAND
        self._afters: dict[tuple[int, int, bool], tuple[Floats, Floats]] = {}
        floors = sorted((spot.floor, spot.machine) for spot in spots if spot.floor)
        (first, self.cheapest_machine), (second, _), *_ = (*floors, (inf, ""), (inf, ""))
        self.cheapest, self.second = tables.elsewhere(first), tables.elsewhere(second)

    def quotes(self, least_markup: float) -> Quotes:
        position = self.position
        bids: list[Quote] = []
        keep = stay = patient = reduce_bid = None
        for spot in self.spots:
            mine = spot.machine == position.machine and position.held in (Held.PAUSED, Held.RUNNING)
            floor = spot.floor
            is_echo = mine and position.held is Held.RUNNING and not floor
            if is_echo:
                floor = position.bid / UNOBSERVED_MARKUP
            if not floor:
                if mine:
                    keep = Quote(self._gone(spot.machine) + self.storage)
                continue
            odds = self.tables.odds(spot.machine, floor)
            costs, idle = self._outlook(spot.machine, floor, odds, mine)
            above = self._above(spot.machine, floor, costs, 0.0 if mine else spot.once)
            # Without a word of its floor a raise would be followed by the next: then the bid stays, or the job leaves.
            if above is not None and not is_echo:
                bids.append(above)
            if mine:
                patient = None if is_echo else self._below(spot.machine, floor, costs)
                keep = Quote(idle)
                stay = self._staying(floor, costs, idle, odds)
            if is_echo and not self.pending:
                reduce_bid = self._reduced_bid(spot.machine, floor, idle, least_markup)
        on_demand, release = self._on_demand(), self._release()
        return Quotes(on_demand, release, keep, stay, tuple(bids), patient, reduce_bid, self._is_forced())

    def _is_forced(self) -> bool:
        position, shape = self.position, self.tables.shape
        start_s = position.pending_s if self.is_on_demand else position.thrown_back_s + shape.migrate_s
        needed_s = position.work_s + start_s + shape.reserve_s
        look_s = position.look_s or self.tables.step_s
        looks = int((position.left_s - position.worst_extra_s) / look_s + 1e-6) - 1
        return looks * look_s < needed_s - 1e-6

    def _elsewhere(self, machine: str) -> int:
        """The class of the cheapest floor but for this machine's."""
        return self.second if machine == self.cheapest_machine else self.cheapest

    def _outlook(self, machine: str, floor: float, odds: Odds, mine: bool) -> tuple[Floats, float]:
        """[ratio bin] → $ from here where the bid is the bin's upper edge; and $ where none is made. Storage is paid.

        A floor that stays at its level stays where in the level it is: there the costs are between two levels'.
        """
        to_run, to_pause = self._after(self.tables.of(machine), self._elsewhere(machine), mine)
        level = self.tables.level(floor)
        neighbour, share = self.tables.beside(level, floor)
        if share:
            to_run, to_pause = to_run.copy(), to_pause.copy()
            to_run[level] += share * (to_run[neighbour] - to_run[level])
            to_pause[level] += share * (to_pause[neighbour] - to_pause[level])
        better = to_run - to_pause
        if not self.tables.sees_falls:
            # A floor that falls unobserved counts as one that stays, as long as the machine runs: the bid is paid on.
            better[:level] = to_run[level] - to_pause[:level]
        idle = float(odds.moves @ to_pause) + self.storage
        paid = odds.paid * (floor * self.step_h)
        return odds.won @ better + paid + idle, idle

    def _after(self, table: MachineTable, elsewhere: int, mine: bool) -> tuple[Floats, Floats]:
        """[next level] → $ from the next step on where the machine runs, and where it is paused."""
        import numpy as np

        key = (id(table), elsewhere, mine)
        after = self._afters.get(key)
        if after is not None:
            return after
        work, position = self.work, self.position
        if mine and position.held is Held.RUNNING:
            left_to_run = work + self.pending - 1
            left_to_pause = work + self.thrown_back
        elif mine and position.is_set_up:
            left_to_run = work + self.resume - 1
            left_to_pause = work
        else:
            left_to_run = work + self.migrate - 1
            left_to_pause = work + self.migrate - self.resume
        run = self.tables.levels_row(table.run, self.next, left_to_run, elsewhere)
        pause = self.tables.levels_row(table.paused, self.next, left_to_pause, elsewhere)
        after = self._afters[key] = (np.array(run), np.array(pause))
        return after

    def _above(self, machine: str, floor: float, costs: Floats, once: float = 0.0) -> Quote | None:
        """The best bid at or above the floor. ``costs``: [ratio bin] → $."""
        return self._least(machine, floor, costs, FIRST_ABOVE, self._count_allowed(floor), once)

    def _below(self, machine: str, floor: float, costs: Floats) -> Quote | None:
        """The best bid below the floor."""
        return self._least(machine, floor, costs, 0, min(self._count_allowed(floor), FIRST_ABOVE), 0.0)

    def _count_allowed(self, floor: float) -> int:
        """So many of the bins have edges that may be bid."""
        return bisect_left(RATIO_EDGES, self.tables.shape.ceiling / floor)

    def _least(self, machine: str, floor: float, costs: Floats, first: int, end: int, once: float) -> Quote | None:
        if first >= end:
            return None
        least = costs[first:end].min()
        at = first + int(costs[first:end].argmin())
        if not self.tables.shape.bills_at_bid:
            # What is bid is not paid: of bids that are expected to cost the same the highest loses least often.
            at = first + int((costs[first:end] <= least * (1 + SAME) + SAME).nonzero()[0][-1])
        price = floor + self.tables.shape.storage_rate
        return Quote(float(costs[at]) + once, machine, floor * RATIO_EDGES[at], price)

    def _staying(self, floor: float, costs: Floats, idle: float, odds: Odds) -> Quote:
        bid = self.position.bid
        price = floor + self.tables.shape.storage_rate
        reached = bisect_right(RATIO_EDGES, bid / floor * (1 + 1e-9))
        if not reached:
            return Quote(idle, self.position.machine, bid, price)
        cost = float(costs[reached - 1])
        if self.tables.shape.bills_at_bid:  # the bid itself, and not the edge below it
            chance = float(odds.won[reached - 1].sum())
            above_edge = bid - floor * RATIO_EDGES[reached - 1]
            cost += chance * above_edge * self.step_h
        return Quote(cost, self.position.machine, bid, price)

    def _reduced_bid(self, machine: str, floor: float, idle: float, least_markup: float) -> Quote | None:
        """The best bid on its calm floor: it runs on for less if the rival bidder has left, and is paused if not.

        ``floor``: where it was when it was bid on. ``idle``: $ where it is paused there.
        """
        calm = self.tables.calm(machine)
        if calm is None:
            return None
        costs, _ = self._outlook(machine, calm, self.tables.odds(machine, calm), mine=True)
        above = self._above(machine, calm, costs)
        if above is None:
            return None
        bid = max(above.bid, calm * least_markup)
        steps = int(self.position.bid_age_s / self.tables.step_s) + 1
        fallen = self.tables.fallen(machine, floor, bid, steps)
        if not fallen:
            return None
        more = (bid - above.bid) * self.step_h if self.tables.shape.bills_at_bid else 0.0
        cost = fallen * (above.cost + more) + (1 - fallen) * idle
        return Quote(cost, machine, bid, above.price, 1 - fallen)

    def _gone(self, machine: str) -> float:
        """A held, paused machine of which nothing is seen: as at the highest level."""
        table = self.tables.of(machine)
        return self.tables.levels_row(table.paused, self.next, self.work, self.cheapest)[-1]

    def _on_demand(self) -> Quote:
        shape = self.tables.shape
        price = shape.on_demand_price + shape.storage_rate
        start = self.pending if self.is_on_demand else self.migrate
        after = self.tables.cost(self.tables.on_demand, self.next, self.work + start - 1, self.cheapest)
        return Quote(price * self.step_h + after, price=price)

    def _release(self) -> Quote:
        return Quote(self.tables.cost(self.tables.start, self.next, self.work, self.cheapest))
