"""A certification at one moment, what it may do, and which machine it rents. Values and pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from autopilot.certify.claim import MarketClaim, Step
from autopilot.domain.actions import Action
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict, StepMark
from autopilot.domain.instance import Instance
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import Number
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.remark import Remark
from autopilot.policy.eligibility import eligible
from autopilot.pricing.rule.bidding import ceiling

LOSING, FIRST, UNDERCUT = Decimal("0.6"), Decimal("1.2"), Decimal("0.5")
"""Bids, as shares of the floor."""
RAISED = Decimal("1.1")
"""As a share of the bid before."""
PER_RUN, PER_PORT = 1000, 100
"""The machine's own program reports as its step how often it has begun on this disk, times ``PER_RUN``; whether the
market told it an address (1) and a port there (2), times ``PER_PORT``; and for how many seconds it lived on after
SIGTERM, before a stop."""
SPEAKS_WITHIN = timedelta(minutes=10)
"""From a machine's start until its program has reported."""
MOST_MACHINES = 3
"""That a step asks for before it gives up."""


@dataclass(frozen=True, slots=True)
class Run:
    """A certification at one moment."""

    job: Job
    claims: tuple[MarketClaim, ...]
    """What is assumed of the market that is certified."""
    leases: tuple[Lease, ...]
    """All that it ever had, oldest first."""
    marks: Mapping[str, StepMark]
    findings: Mapping[str, ClaimFinding]
    remarks: tuple[Remark, ...]
    """What the market has said since it began."""
    instance: Instance | None
    """The held machine as the market's newest list shows it."""
    is_fresh: bool
    """That list is of this tick, and younger than all that was asked of the market for this machine."""
    market: Market
    now: datetime
    params: Params
    is_dialled: bool = False
    """The daemon dials its machines."""
    forwards: bool | None = None
    """Whether the SSH server of the held machine forwards; None: that is not known."""

    @property
    def main(self) -> Lease | None:
        return self.job.main

    @property
    def last(self) -> Lease | None:
        return self.leases[-1] if self.leases else None

    def find(self, claim: str, verdict: ClaimVerdict, *numbers: tuple[str, Number]) -> ClaimFinding:
        return ClaimFinding(self.job.id, claim, verdict, self.now, numbers)

    def has_held(self, claim: str) -> bool:
        return claim in self.findings and self.findings[claim].verdict is ClaimVerdict.HELD

    def begin(self, step: Step, *numbers: tuple[str, Number]) -> StepMark:
        return StepMark(self.job.id, step, self.now, numbers=numbers)


@dataclass(frozen=True, slots=True)
class Move:
    """``is_over``: the step is. Marks and findings count only if no action is vetoed."""

    actions: tuple[Action, ...] = ()
    mark: StepMark | None = None
    findings: tuple[ClaimFinding, ...] = ()
    is_over: bool = False


WAIT, OVER = Move(), Move(is_over=True)
Play = Callable[[Run, StepMark | None], Move]


@dataclass(frozen=True, slots=True)
class Turn:
    """What is done now, and what is to be written down with it."""

    actions: tuple[Action, ...] = ()
    marks: tuple[StepMark, ...] = ()
    findings: tuple[ClaimFinding, ...] = field(default=())


def choose(run: Run, *, allow_spot: bool = True) -> tuple[Offer, CapacityType, Decimal] | None:
    """The cheapest small machine, by a bid where the market has spot, else on demand; with the bid or the price."""
    able = run.market.providers[run.job.certifies].capabilities
    found = eligible(run.job, run.market, run.now, run.params)
    offers = [each for each in found if each.on_demand_price is not None or not able.on_demand]
    has_spot = allow_spot and able.spot
    bids = [(offer, _bid(run, offer, FIRST)) for offer in offers if has_spot and offer.floor is not None]
    possible = [(offer, bid) for offer, bid in bids if bid is not None]
    if possible:
        offer, bid = min(possible, key=lambda each: (each[1], each[0].key))
        return offer, CapacityType.SPOT, bid
    most = run.job.spec.max_hourly
    prices = [(offer, offer.on_demand_price) for offer in offers]
    priced = [(offer, price) for offer, price in prices if price is not None and (most is None or price <= most)]
    if not priced:
        return None
    offer, price = min(priced, key=lambda each: (each[1], each[0].key))
    return offer, CapacityType.ON_DEMAND, price


def _bid(run: Run, offer: Offer, share: Decimal) -> Decimal | None:
    """That share of the floor; None if there is no floor, or no room for a raise below the ceiling."""
    limit = ceiling(run.job.spec, offer.on_demand_price, run.params)
    if offer.floor is None or limit is None or offer.floor * FIRST * RAISED > limit:
        return None
    return round_up(offer.floor * share, run.params)


def round_up(bid: Decimal, params: Params) -> Decimal:
    return max(bid.quantize(params.bids.unit, ROUND_CEILING), params.bids.least)
