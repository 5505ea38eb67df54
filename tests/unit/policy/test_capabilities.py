"""Each flag of a market changes what is decided. A new one that changes nothing fails here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import autopilot
from autopilot.domain.actions import Action, ChangeBid, Release
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import LeaseState
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Capabilities, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.auctions import Auctions
from autopilot.policy.decide import decide
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_paused_lease, a_spec, an_offer, at, capabilities
from tests.unit.engine.test_auctions import MARKET, a_job_due, ask, recorded
from tests.unit.policy.test_auctioned import bidders

P = Params()
ABLE = capabilities()
CHEAP = an_offer("other", floor=D("0.294"))
"""Cheaper an hour than a raise on the machine that is paused, but dearer to the end while that machine has its disk."""
DEAR = an_offer("other", floor=D("0.500"))
LEAVING = a_lease(state=LeaseState.DESTROY_SENT)
PAUSED = a_paused_lease()
SHORT = a_spec(work_estimate=HOUR / 2)


def seen_by(able: Capabilities, market: Market) -> Market:
    return replace(market, providers={"vastai": ProviderView(able, known=True, credit=None)})


def actions(job: Job, market: Market) -> Callable[[Capabilities], tuple[Action, ...]]:
    return lambda able: decide(job, seen_by(able, market), at(30), P).actions


def costs(able: Capabilities, offer: Offer = CHEAP) -> list[object]:
    clearing = a_market(offer)
    return [each.cost for each in price_candidates(a_job(), seen_by(able, clearing), clearing.offers, P)]


AUCTION = replace(a_market(an_offer("a", floor=D("0.2"))), outlook=Outlook(bidders=bidders()))
LOW_AUCTION = replace(AUCTION, outlook=Outlook(bidders=bidders(1.01)))
AT_AN_AUCTION = replace(
    a_job(spec=a_spec(work_estimate=6 * HOUR, deadline=START + 9 * HOUR)), submitted_at=START - 2 * HOUR
)
DECIDED: Mapping[str, Callable[[Capabilities], object]] = {
    "spot": actions(a_job(), a_market(CHEAP)),
    "on_demand": actions(a_job(spec=a_spec(spot_policy=SpotPolicy.ON_DEMAND)), a_market(CHEAP)),
    "can_rebid": actions(a_job(PAUSED), a_market(DEAR)),
    "pauses_when_outbid": actions(a_job(PAUSED), a_market(DEAR)),
    "keeps_disk_when_stopped": actions(a_job(PAUSED, spec=SHORT), a_market(CHEAP)),
    "bills_at_bid": costs,
    "is_pooled": actions(a_job(LEAVING), a_market(an_offer(LEAVING.machine_id))),
    "rebid_needs_stop": actions(AT_AN_AUCTION, LOW_AUCTION),
    "resumes_by_itself": lambda able: costs(able, an_offer("dear", download_price=D("0.01"))),
    "spot_is_unknown": lambda able: actions(a_job(), a_market(CHEAP))(replace(able, spot=False)),
}
"""Flag → what changes with it. ``reports_floor`` is read where auctions are learnt: below."""
READ_ELSEWHERE = {
    "bids_set_price": "policy/own_bids.py",
    "boots_vm": "engine/calls.py",
    "has_bills": "planning/market_notes.py",
    "notice_may_be_withdrawn": "planning/market_notes.py",
    "shows_held_floors": "engine/lost_bids.py",
}
"""Flag → where it changes what is done, or said, and not what is decided."""


def flipped(flag: str) -> Capabilities:
    changed: dict[str, Any] = {flag: not getattr(ABLE, flag)}
    return replace(ABLE, **changed)


@pytest.mark.parametrize("flag", [flag.name for flag in fields(Capabilities) if flag.type == "bool"])
async def test_each_flag_of_a_market_changes_what_is_decided(flag: str) -> None:
    if flag == "reports_floor":
        assert await is_learnt(ABLE)
        assert not await is_learnt(flipped(flag))
        return
    if flag in READ_ELSEWHERE:
        assert f".{flag}" in (Path(autopilot.__file__).parent / READ_ELSEWHERE[flag]).read_text()
        return
    assert DECIDED[flag](ABLE) != DECIDED[flag](flipped(flag))


async def is_learnt(able: Capabilities) -> bool:
    """Whether floors on record become bids."""
    store = MemoryStore()
    await recorded(store, 2 * 24 * HOUR)
    return await ask(Auctions(store, P), a_job_due(), seen_by(able, MARKET)) is not None


async def test_auctions_are_of_machines_that_are_paused() -> None:
    assert not await is_learnt(flipped("pauses_when_outbid"))


def test_a_paused_machine_without_its_disk_costs_a_set_up_and_a_restore() -> None:
    decided = actions(a_job(PAUSED, spec=SHORT), a_market(CHEAP))
    assert isinstance(decided(ABLE)[0], ChangeBid)
    left, *_ = decided(flipped("keeps_disk_when_stopped"))
    assert left == Release(PAUSED.id, Reason.OUTBID)


def test_nothing_waits_for_a_machine_that_the_market_does_not_bring_back() -> None:
    alone = actions(a_job(PAUSED), a_market())
    assert alone(replace(ABLE, can_rebid=False)) == (), "it may wake up by itself"
    assert alone(flipped("pauses_when_outbid")) == (Release(PAUSED.id, Reason.OUTBID),)


@pytest.mark.parametrize("flag", ["pauses_when_outbid", "keeps_disk_when_stopped"])
def test_where_a_loss_repeats_the_setup_it_repeats_the_download(flag: str) -> None:
    free, dear = an_offer("free"), an_offer("dear", download_price=D("0.01"))

    def extra(able: Capabilities) -> Decimal:
        ranked = price_candidates(a_job(), seen_by(able, a_market()), (free, dear), P)
        cost = {each.offer.machine_id: each.cost for each in ranked if each.bid < D("0.5")}
        return cost["dear"] - cost["free"]

    assert extra(ABLE) == D("0.10"), "ten gigabytes, once"
    assert extra(flipped(flag)) > D("0.20")
