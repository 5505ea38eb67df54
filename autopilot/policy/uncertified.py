"""A market without a certificate in force, used within its allowance: one machine at a time, the cheapest that fits,
until the market is proved by use (``proof``); then several, chosen as anywhere.

When the allowance leaves nothing beyond what is committed there, the machine saves and is given back. The job is not
parked: it goes on elsewhere, or waits for the certificate.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.actions import Action, ChangeBid, Note, Release, SaveAndStop
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.market import Market, UncertifiedRoom
from autopilot.domain.money import ZERO, Number, worst_case
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.situation import Situation
from autopilot.pricing.rule.bidding import first_bid
from autopilot.pricing.rule.cost import Candidate

WORTH_A_START = timedelta(minutes=30)
"""For less than so much work, unless the job needs less, no machine is rented from the rest of an allowance."""


def price_start(job: Job, offer: Offer, bid: Decimal, params: Params) -> Decimal:
    """Dollars that the allowance must have left for a machine at that bid ($/h): its reserve, and some work."""
    work = WORTH_A_START if job.remaining_work is None else min(WORTH_A_START, job.remaining_work)
    return budget.start_reserve(job, offer, bid, params) + worst_case(bid + offer.storage_rate(job.spec.disk_gb), work)


def price_least_start(job: Job, offer: Offer, market: Market, params: Params) -> Decimal:
    """The same at the lowest price at which the job may have the machine."""
    able, policy = market.able(offer.provider), job.spec.spot_policy
    prices = [
        first_bid(job.spec, offer, params) if policy is not SpotPolicy.ON_DEMAND and able and able.spot else None,
        offer.on_demand_price if policy is not SpotPolicy.SPOT and able and able.on_demand else None,
    ]
    known = [price for price in prices if price is not None]
    return price_start(job, offer, min(known, default=offer.floor or ZERO), params)


def fits_room(job: Job, choice: Candidate, market: Market, params: Params) -> bool:
    """Whether the allowance of its market, where one bounds it, has enough left for it."""
    room = market.room_on(job, choice.offer.provider)
    return room is None or price_start(job, choice.offer, choice.bid, params) <= room.left


def keep_within_rooms(situation: Situation) -> Situation:
    """With those candidates only that an allowance has room for.

    Until the market is proved by use: of each market and capacity type the cheapest, and none beside a machine that the
    job has there. One that is paused is given back before another is rented, so what could be had there is a reason to
    give it back.
    """
    job, market, params = situation.job, situation.market, situation.params
    rooms = {name: market.room_on(job, name) for name in market.providers}
    if not any(rooms.values()):
        return situation
    unproved = {name for name, room in rooms.items() if room is not None and not room.proof.is_made}
    held = {lease.provider for lease in job.leases if not (lease.is_over or lease.state is LeaseState.PAUSED)}
    cheapest: dict[tuple[str, CapacityType], Decimal] = {}

    def is_bound(choice: Candidate) -> bool:
        return choice.offer.provider in unproved

    def may_be_rented(choice: Candidate) -> bool:
        is_second = is_bound(choice) and choice.offer.provider in held
        return not is_second and fits_room(job, choice, market, params)

    possible = situation.candidates.where(may_be_rented)
    for choice in filter(is_bound, possible):
        kind = choice.offer.provider, choice.capacity_type
        cheapest[kind] = min(cheapest.get(kind, _burn(job, choice)), _burn(job, choice))

    def is_cheapest(choice: Candidate) -> bool:
        return _burn(job, choice) == cheapest[choice.offer.provider, choice.capacity_type]

    return replace(situation, candidates=possible.where(lambda choice: not is_bound(choice) or is_cheapest(choice)))


def _burn(job: Job, choice: Candidate) -> Decimal:
    return choice.bid + choice.offer.storage_rate(job.spec.disk_gb)


def may_raise(job: Job, action: Action, market: Market, params: Params) -> bool:
    """Whether the allowance covers the action, should it be a raise of a bid."""
    if not isinstance(action, ChangeBid):
        return True
    lease = next((lease for lease in job.leases if lease.id == action.lease_id), None)
    room = None if lease is None else market.room_of(job, lease)
    if lease is None or room is None or action.bid <= lease.bid:
        return True
    raised = budget.commitment(replace(lease, bid=action.bid), params)
    return raised - budget.commitment(lease, params) <= room.left


def find_used_up(job: Job, market: Market) -> tuple[Lease, ...]:
    """Its machines for which the allowance of their market leaves nothing more."""
    rooms = ((lease, market.room_of(job, lease)) for lease in job.leases if lease.is_wanted)
    return tuple(lease for lease, room in rooms if room is not None and room.left <= ZERO)


def give_back(lease: Lease, *, is_saved: bool) -> tuple[Action, ...]:
    """A machine at work saves first. ``is_saved``: it has, or is waited for no longer."""
    is_running = lease.observed.running_since is not None and lease.instance_id is not None
    is_at_work = is_running and lease.agent.exit_code is None
    if is_at_work and lease.orders.role is Role.RUN:
        return (SaveAndStop(lease.id, Reason.OVER_UNCERTIFIED),)
    if is_at_work and lease.orders.role is Role.SAVE_AND_STOP and not is_saved:
        return ()
    is_asked = lease.instance_id is None and lease.orders.role is Role.LEAVE
    return () if is_asked else (Release(lease.id, Reason.OVER_UNCERTIFIED),)


def room_note(provider: str, room: UncertifiedRoom) -> Note:
    numbers: tuple[tuple[str, Number], ...] = (
        ("provider", provider),
        ("left", room.left),
        ("allowance", room.allowance),
    )
    return Note("uncertified", numbers)
