"""Shadow bidders: one simulated bidder for each markup, played on every look at an auction of spot machines.

Each bids its markup times the cheapest floor and stays, until it is outbid or another machine is far cheaper. What is
kept of it are sums of which older hours count less: hours held and hours without a machine, losses, starts, dollars.
None of it depends on a job; what a loss costs is the job's own (``LossCosts``).

    ν      = (losses + prior losses) / (hours held + prior hours)                       losses an hour
    worked = 1 / ((1/ν + again) · (e^(ν · C) − 1) / C) − starts · start / held            share of an hour held
    lost   = (1 − worked + without / held) / worked                                     hours, an hour of work
    price  = dollars / held / worked                                                    $ an hour of work

C is the time between two checkpoints: a loss throws the work back to the last one (Daly, A higher order estimate of the
optimum checkpoint interval for restart dumps, Future Generation Computer Systems 22, 2006, eq. 13). Markups as experts
follow Menache, Shamir and Jain, On-demand, Spot, or Both, ICAC 2014.

A machine that is not shown any more is no loss that was seen. Where dearer ones are shown, its floor has passed them,
or another has it: that counts as a loss by ``Shadowing.unobserved_lost``. Else nothing is known, and it counts as held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from math import exp, expm1, inf

from autopilot.domain.floors import Bidders, Tally

MARKUPS = (1.001, 1.01, 1.02, 1.05, 1.1, 1.2, 1.35)
"""Bids over the floor, as factors. The first just wins."""
UNPAID_MARKUPS = (1.02, 1.1, 1.35, 2.0, 4.0, 8.0)
"""The same where all pay the floor, and a bid is the most that would be paid."""
STORM_MARKUP = 1.05
"""Of the shadow with the short half-life, which measures storms."""
LEAVE_RATIO = 1.25
"""A machine is left for the cheapest one where it costs that many times as much."""
LEAST_WORKED = 0.02
"""Share of an hour held; less is no bid that does work."""
MOST_EXPONENT = 20.0


@dataclass(frozen=True, slots=True)
class Shadowing:
    """How shadows learn."""

    half_life_h: float = 24.0
    """After so long an hour counts half. Source: chosen on made-up and recorded markets."""
    storm_half_life_h: float = 2.0
    """The same of the shadow that measures storms."""
    unobserved_lost: float = 0.5
    """Chance that a machine was lost which is not shown while dearer ones are. Source: assumed."""
    unobserved_looks: float = 2
    """So many looks in a row that do not show it are needed for that."""
    own_weight: float = 1.0
    """An hour and a loss of a bid that was really made count as so many of a shadow's."""


SHADOWING = Shadowing()


@dataclass(frozen=True, slots=True)
class LossCosts:
    """What losses and starts cost one job; hours and $."""

    checkpoint_h: float
    """Between two checkpoints; without any, all of the work."""
    again_h: float
    """From a loss to work on the same machine: seen, bid again, resumed."""
    start_h: float
    """From a create to work."""
    loss_dollars: float = 0.0
    """Traffic, and disk while it is paused."""
    start_dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Expected:
    """What bids of one markup come to for one job."""

    markup: float
    price: float
    """$ an hour of work."""
    lost: float
    """Hours in which nothing is done, for an hour of work."""


PRIOR_HOURS = 0.5
"""What is taken for granted of losses weighs as much as so many hours held."""
PRIOR_LOST_AT_FLOOR, PRIOR_FADES = 3.5, 0.04
"""Losses an hour of a bid at the floor, and the markup by which they fall to 1/e. Source: field reports of bids that
live 12 min at the floor and 45 to 150 min some per cent above it."""
PRIOR_LOST_ALWAYS = 0.05
"""Losses an hour at any bid: on-demand renters outrank it."""


def prior_losses(markup: float) -> float:
    """Losses an hour, before any was seen."""
    return PRIOR_LOST_AT_FLOOR * exp(-(markup - 1.0) / PRIOR_FADES) + PRIOR_LOST_ALWAYS


def losses_per_h(tally: Tally) -> float:
    """ν: losses an hour, with what is taken for granted of them."""
    return (tally.losses + PRIOR_HOURS * prior_losses(tally.markup)) / (tally.held + PRIOR_HOURS)


def expected_bidders(floor: float, *, pays_bid: bool) -> Bidders:
    """What is expected of bidders where nothing is on record: of losses what is taken for granted, and of prices the
    floor of now, $/h."""

    def make_tally(markup: float) -> Tally:
        paid = floor * (markup if pays_bid else 1.0)
        losses = PRIOR_HOURS * prior_losses(markup)
        return Tally(markup, held=PRIOR_HOURS, losses=losses, dollars=PRIOR_HOURS * paid)

    markups = MARKUPS if pays_bid else UNPAID_MARKUPS
    return Bidders(tuple(make_tally(markup) for markup in markups), make_tally(STORM_MARKUP))


def expect(tally: Tally, costs: LossCosts, floor: float | None = None) -> Expected | None:
    """None: such bids do no work. ``floor``: $/h of now, of which the price is the markup's where nothing is known."""
    losses = losses_per_h(tally)
    if tally.held > 0.0:
        paid, starts, without = (each / tally.held for each in (tally.dollars, tally.starts, tally.without))
    elif floor is not None:
        paid, starts, without = floor * tally.markup, 0.0, 0.0
    else:
        return None
    worked = 1.0 / hours_for_one(losses, costs.checkpoint_h, costs.again_h) - starts * costs.start_h
    if worked < LEAST_WORKED:
        return None
    dollars = paid + losses * costs.loss_dollars + starts * costs.start_dollars
    return Expected(tally.markup, dollars / worked, (1.0 - worked + without) / worked)


def hours_for_one(losses: float, checkpoint_h: float, again_h: float) -> float:
    """That an hour of work takes, with so many losses an hour; 1 without any."""
    exponent = losses * checkpoint_h
    if exponent <= 0.0:
        return 1.0 + losses * again_h
    if exponent > MOST_EXPONENT:
        return inf
    return (1.0 / losses + again_h) * expm1(exponent) / checkpoint_h


@dataclass(frozen=True, slots=True)
class FloorLook:
    """One look at the market: the floors that it shows, $/h by machine; at least one, and none infinite."""

    floors: Mapping[str, float]
    hours: float
    """Until the next look."""
    limit: float
    """$/h: no bid is as high."""
    pays_bid: bool = True
    """Else what all pay, the floor."""
    ours: Collection[str] = ()
    """Machines that run for us: they are not shown, and are not lost."""
    least: float = field(init=False)
    dearest: float = field(init=False)
    _cheapest: tuple[str, ...] = field(init=False)
    """Two, or the only one."""

    def __post_init__(self) -> None:
        cheapest = tuple(nsmallest(2, self.floors, key=self.floors.__getitem__))
        object.__setattr__(self, "_cheapest", cheapest)
        object.__setattr__(self, "least", self.floors[cheapest[0]])
        object.__setattr__(self, "dearest", max(self.floors.values()))

    def cheapest_but(self, machine: str) -> str | None:
        """None: there is no other."""
        return next((name for name in self._cheapest if name != machine), None)


class Shadow:
    """One simulated bidder."""

    __slots__ = ("_bid", "_machine", "_unobserved", "dollars", "held", "losses", "markup", "starts", "without")

    def __init__(self, markup: float) -> None:
        self.markup = markup
        self._machine, self._bid, self._unobserved = "", 0.0, 0
        self.held = self.without = self.losses = self.starts = self.dollars = 0.0

    @property
    def tally(self) -> Tally:
        return Tally(self.markup, self.held, self.without, self.losses, self.starts, self.dollars)

    def look(self, look: FloorLook, how: Shadowing, kept: float) -> None:
        """``kept``: the share of each sum so far that still counts."""
        self.held, self.without, self.losses = self.held * kept, self.without * kept, self.losses * kept
        self.starts, self.dollars = self.starts * kept, self.dollars * kept
        if self._machine:
            self._see(look, how)
        if not self._machine:
            self._start(look, look.cheapest_but(""))
        if not self._machine:
            self.without += look.hours
            return
        paid = self._bid if look.pays_bid else min(look.floors.get(self._machine, self._bid), self._bid)
        self.held += look.hours
        self.dollars += look.hours * paid

    def add_own(self, hours: float, rise: float | None, weight: float) -> None:
        if self.held > 0.0:
            self.dollars += weight * hours * self.dollars / self.held
            self.held += weight * hours
        if rise is not None and self.markup < rise:
            self.losses += weight

    def _see(self, look: FloorLook, how: Shadowing) -> None:
        """What has become of its machine."""
        floor = look.floors.get(self._machine)
        if floor is None:
            is_gone = self._bid < look.dearest and self._machine not in look.ours
            self._unobserved = self._unobserved + 1 if is_gone else 0
            if self._unobserved >= how.unobserved_looks:
                self.losses += how.unobserved_lost
                self._machine = ""
            return
        self._unobserved = 0
        if self._bid < floor:
            self.losses += 1.0
            again = floor * self.markup
            stays = floor <= LEAVE_RATIO * look.least and again < look.limit
            self._machine, self._bid = (self._machine, again) if stays else ("", 0.0)
            return
        other = look.cheapest_but(self._machine)
        if other is None:
            return
        here, there = self._bid, look.floors[other] * self.markup
        if not look.pays_bid:
            here, there = floor, look.floors[other]
        if here > LEAVE_RATIO * there:
            self._start(look, other)

    def _start(self, look: FloorLook, machine: str | None) -> None:
        floor = inf if machine is None else look.floors[machine]
        bid = floor * self.markup
        if not look.pays_bid and floor < look.limit:
            bid = min(bid, (floor + look.limit) / 2)
        if machine is not None and bid < look.limit:
            self._machine, self._bid, self._unobserved = machine, bid, 0
            self.starts += 1.0


class Shadows:
    """All markups on one auction: one market, one kind of GPU."""

    def __init__(self, how: Shadowing = SHADOWING, markups: Sequence[float] = MARKUPS) -> None:
        self._how = how
        self._all = [Shadow(markup) for markup in markups]
        self._storm = Shadow(STORM_MARKUP)
        self._bidders: Bidders | None = None

    def look(self, look: FloorLook) -> None:
        self._bidders = None
        kept, kept_storm = (0.5 ** (look.hours / half) for half in (self._how.half_life_h, self._how.storm_half_life_h))
        for shadow in self._all:
            shadow.look(look, self._how, kept)
        self._storm.look(look, self._how, kept_storm)

    def add_own(self, hours: float, rise: float | None = None) -> None:
        """So long a machine ran under a bid that was really made. ``rise``: it was lost to so many times the floor that
        the bid was made on, infinite if no bid would have kept it: each markup below that would have lost it as well.
        """
        self._bidders = None
        for shadow in (*self._all, self._storm):
            shadow.add_own(hours, rise, self._how.own_weight)

    @property
    def bidders(self) -> Bidders:
        """The same value until something new is seen."""
        if self._bidders is None:
            self._bidders = Bidders(tuple(shadow.tally for shadow in self._all), self._storm.tally)
        return self._bidders
