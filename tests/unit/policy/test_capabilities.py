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
from tests.unit.engine.test_auctions import MARKET, a_job_due, recorded
from tests.unit.engine.test_auctions import shape as shape_of
from tests.unit.policy.test_auctioned import SHAPE

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


AUCTION = replace(a_market(an_offer("a", floor=D("0.2"))), outlook=Outlook(auction=SHAPE))
OUTBID_AT_AN_AUCTION = replace(
    a_job(
        a_paused_lease(machine_id="a", bid=D("0.190"), on_demand_price=D(1), agent_boot=1),
        spec=a_spec(work_estimate=6 * HOUR, deadline=START + 8 * HOUR),
    ),
    submitted_at=START - HOUR,
)
HELD = a_lease(
    machine_id="a",
    bid=D("0.37"),
    on_demand_price=D(1),
    acquired_at=START - 2 * HOUR,
    intended_at=START - 2 * HOUR,
    running_since=START - 2 * HOUR,
)
"""It runs at a bid that is dearer than it needs to be."""
DEARLY_HELD = replace(
    a_job(HELD, spec=a_spec(work_estimate=6 * HOUR, deadline=START + 9 * HOUR)), submitted_at=START - 2 * HOUR
)
UNSHOWN = replace(
    a_market(an_offer("a", floor=None, on_demand_price=D(1))),
    outlook=Outlook(auction=replace(SHAPE, shows_running=False)),
)
DECIDED: Mapping[str, Callable[[Capabilities], object]] = {
    "spot": actions(a_job(), a_market(CHEAP)),
    "on_demand": actions(a_job(spec=a_spec(spot_policy=SpotPolicy.ON_DEMAND)), a_market(CHEAP)),
    "can_rebid": actions(a_job(PAUSED), a_market(DEAR)),
    "pauses_when_outbid": actions(a_job(PAUSED), a_market(DEAR)),
    "keeps_disk_when_stopped": actions(a_job(PAUSED, spec=SHORT), a_market(CHEAP)),
    "bills_at_bid": costs,
    "shows_held_floors": actions(OUTBID_AT_AN_AUCTION, AUCTION),
    "is_pooled": actions(a_job(LEAVING), a_market(an_offer(LEAVING.machine_id))),
    "rebid_needs_stop": actions(DEARLY_HELD, UNSHOWN),
    "resumes_by_itself": lambda able: costs(able, an_offer("dear", download_price=D("0.01"))),
    "spot_is_unknown": lambda able: actions(a_job(), a_market(CHEAP))(replace(able, spot=False)),
}
"""Flag → what changes with it. ``reports_floor`` is read where tables for auctions are asked for: below."""
READ_ELSEWHERE = {
    "bids_set_price": "policy/own_bids.py",
    "boots_vm": "engine/calls.py",
    "has_bills": "planning/market_notes.py",
    "notice_may_be_withdrawn": "planning/market_notes.py",
}
"""Flag → where it changes what is done, or said, and not what is decided."""


def flipped(flag: str) -> Capabilities:
    changed: dict[str, Any] = {flag: not getattr(ABLE, flag)}
    return replace(ABLE, **changed)


@pytest.mark.parametrize("flag", [flag.name for flag in fields(Capabilities) if flag.type == "bool"])
async def test_each_flag_of_a_market_changes_what_is_decided(flag: str) -> None:
    if flag == "reports_floor":
        assert await resume_s(ABLE) is not None
        assert await resume_s(flipped(flag)) is None
        return
    if flag in READ_ELSEWHERE:
        assert f".{flag}" in (Path(autopilot.__file__).parent / READ_ELSEWHERE[flag]).read_text()
        return
    assert DECIDED[flag](ABLE) != DECIDED[flag](flipped(flag))


async def resume_s(able: Capabilities) -> float | None:
    """Seconds to resume by the tables for an auction; None if there are none."""
    store = MemoryStore()
    await recorded(store, 2 * 24 * HOUR)
    made = await shape_of(Auctions(store, P), a_job_due(), seen_by(able, MARKET))
    return None if made is None else made.resume_s


async def test_tables_for_auctions_are_of_machines_that_are_paused() -> None:
    assert await resume_s(flipped("pauses_when_outbid")) is None


async def test_a_machine_without_its_disk_resumes_at_an_auction_like_a_new_one() -> None:
    kept, lost = await resume_s(ABLE), await resume_s(flipped("keeps_disk_when_stopped"))
    assert kept == P.timing.resume_s
    assert lost is not None
    assert lost > P.timing.boot_s, "boot and download"


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
