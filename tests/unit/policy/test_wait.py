"""What a decision that rents nothing says of the offers that it did not take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.certificate import Lack
from autopilot.domain.job import JobSpec, SpotPolicy, Trust
from autopilot.domain.lost_bids import LostBid, raise_floors
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.policy.decide import decide
from autopilot.policy.eligibility import eligible
from autopilot.policy.wait import wait_notes
from autopilot.pricing.rule.cost import price_candidates
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer, capabilities

P = Params()


def notes_of(spec: JobSpec, market: Market) -> list[tuple[str, dict[str, Any]]]:
    return [(note.topic, dict(note.numbers)) for note in wait_notes(a_job(spec=spec), market, START, P)]


def removed(spec: JobSpec, *offers: Offer, **market: Any) -> dict[str, tuple[int, Any, Any]]:
    return {
        numbers["condition"]: (numbers["offers"], numbers["has"], numbers["wanted"])
        for topic, numbers in notes_of(spec, a_market(*offers, **market))
        if topic == "removed"
    }


def test_a_certificate_is_wanting_only_where_it_would_help_and_for_each_market() -> None:
    spec = a_spec(max_bid=D("0.30"), spot_policy=SpotPolicy.SPOT)
    offers = (
        an_offer("dear", floor=D("1.20"), on_demand_price=D(2)),
        an_offer("small", disk_gb=D(1)),
        an_offer("fits", floor=D("0.20")),
        an_offer("fits-too", floor=D("0.20")),
        replace(an_offer("other", floor=D("0.20")), provider="runpod"),
    )
    market = a_market(*offers)
    views = {
        "vastai": replace(market.providers["vastai"], lack=Lack.OTHER_VERSION),
        "runpod": replace(market.providers["vastai"], lack=Lack.EXPIRED),
    }
    told = [
        (n["condition"], n["offers"], n["has"], n["provider"])
        for topic, n in notes_of(spec, replace(market, providers=views))
        if topic == "removed" and n["condition"] in ("not_certified", "max_price", "disk_gb")
    ]
    assert sorted(told, key=str) == [
        ("disk_gb", 1, D(1), "vastai"),
        ("max_price", 1, D("1.20"), "vastai"),
        ("not_certified", 1, "expired", "runpod"),
        ("not_certified", 2, "other_version", "vastai"),
    ]


def test_the_search_the_conditions_and_the_nearest_that_failed() -> None:
    spec = a_spec(max_bid=D("0.30"), spot_policy=SpotPolicy.SPOT, min_vram_gb=D(24), disk_gb=D(100))
    offers = (
        an_offer("dear", floor=D("1.20"), on_demand_price=D(2)),
        an_offer("less-dear", floor=D("0.95"), on_demand_price=D(2)),
        an_offer("small", disk_gb=D(90)),
        an_offer("smaller", disk_gb=D(10)),
        an_offer("unverified", verified=False),
    )
    search, *conditions = notes_of(spec, a_market(*offers))
    assert search == (
        "search",
        {
            "gpus": "1×RTX 4090",
            "min_vram_gb": D(24),
            "disk_gb": D(100),
            "trust": Trust.VERIFIED,
            "host": None,
            "policy": SpotPolicy.SPOT,
            "offers": 5,
            "fitting": 0,
            "only_on_demand": None,
        },
    )
    told = [(n["condition"], n["offers"], n["has"], n["wanted"], n["machine_id"]) for _, n in conditions]
    assert told == [
        ("disk_gb", 2, D(90), D(100), "small"),
        ("max_price", 2, D("0.95"), D("0.300"), "less-dear"),
        ("verified", 1, None, None, "unverified"),
    ]


@pytest.mark.parametrize(
    ("spec", "offer", "market", "condition", "has", "wanted"),
    [
        ({}, {"gpu": "H100"}, {}, "gpu", None, None),
        ({"min_vram_gb": D(48)}, {}, {}, "vram_gb", D(24), D(48)),
        ({"trust": Trust.SECURE}, {}, {}, "datacenter", None, None),
        ({}, {}, {"known": False}, "market_unknown", None, None),
        ({}, {}, {"avoid": frozenset({("vastai", "machine-a")})}, "avoided", None, None),
        ({}, {"ends_at": START + HOUR}, {}, "lasts_s", 3600, 41_620),
        ({"spot_policy": SpotPolicy.SPOT}, {}, {"spot": False}, "no_spot", None, None),
        ({"spot_policy": SpotPolicy.SPOT}, {"floor": None}, {}, "no_spot", None, None),
        ({"spot_policy": SpotPolicy.ON_DEMAND}, {"on_demand_price": None}, {}, "no_on_demand", None, None),
        ({"spot_policy": SpotPolicy.SPOT}, {"on_demand_price": None}, {}, "no_bound", None, None),
        ({"spot_policy": SpotPolicy.SPOT}, {"floor": D("0.55")}, {}, "on_demand_share", D("0.55"), D("0.539")),
        ({"max_hourly": D("0.1")}, {}, {}, "max_hourly", D("0.200"), D("0.100")),
        ({"max_hourly": D("0.5"), "max_bid": D("0.1")}, {}, {}, "max_hourly_on_demand", D("0.600"), D("0.5")),
        ({"max_rate": D("0.2")}, {}, {}, "max_rate", D("0.214166667"), D("0.2")),
    ],
)  # fmt: skip
def test_each_condition(
    spec: dict[str, Any], offer: dict[str, Any], market: dict[str, Any], condition: str, has: Any, wanted: Any
) -> None:
    assert removed(a_spec(**spec), an_offer(**offer), **market) == {condition: (1, has, wanted)}


def test_a_machine_that_the_job_gives_back() -> None:
    job = a_job(a_lease(machine_id="machine-a"))
    market = a_market(an_offer())
    assert dict(wait_notes(job, market, START, P)[1].numbers)["condition"] == "held"


def test_a_floor_that_is_only_believed_since_our_bid_lost_is_told_as_that() -> None:
    lost = LostBid("vastai", "machine-a", 1, D("0.138"), 3, START)
    offers = raise_floors((an_offer(floor=D("0.120")), an_offer("other", floor=D("0.9"))), [lost], P.bids.unit)
    market = replace(a_market(*offers), lost_bids=(lost,))
    found = [dict(note.numbers) for note in wait_notes(a_job(spec=a_spec(max_bid=D("0.135"))), market, START, P)]
    assert [(n["condition"], n["has"]) for n in found[1:]] == [("lost_bid", D("0.139")), ("max_price", D("0.9"))]


def test_what_could_be_rented_on_demand_counts_for_what_keeps_a_bid_from_it() -> None:
    market = a_market(an_offer(floor=D("0.95"), on_demand_price=D("1.20")))
    search, found = notes_of(a_spec(max_bid=D("0.30")), market)
    assert (search[1]["fitting"], search[1]["only_on_demand"]) == (0, 1)
    assert (found[1]["condition"], found[1]["has"], found[1]["wanted"]) == ("max_price", D("0.95"), D("0.300"))


def test_a_market_that_could_not_be_searched_is_named() -> None:
    view = ProviderView(capabilities(), True, None, "the search rows of this UTC day are used up")
    notes = wait_notes(a_job(), Market({"vastai": view}), START, P)
    assert [note.topic for note in notes] == ["search", "unsearched"]
    assert dict(notes[1].numbers)["problem"] == "the search rows of this UTC day are used up"


def test_only_a_decision_that_rents_nothing_looks_back() -> None:
    spec = a_spec(max_bid=D("0.30"), spot_policy=SpotPolicy.SPOT)
    dear, cheap = an_offer(floor=D("0.95"), on_demand_price=D(2)), an_offer()

    def topics(*leases: Any, offer: Offer) -> set[str]:
        job = a_job(*leases, spec=spec)
        return {note.topic for note in decide(job, a_market(offer), START + timedelta(minutes=1), P).notes}

    assert {"search", "removed"} <= topics(offer=dear)
    assert not {"search", "removed"} & topics(offer=cheap)
    assert not {"search", "removed"} & topics(a_lease(), offer=dear)


PRICES = st.one_of(st.none(), st.decimals("0.01", "2", places=3))


@given(
    floor=PRICES,
    on_demand=PRICES,
    max_bid=PRICES,
    max_hourly=PRICES,
    max_rate=PRICES,
    policy=st.sampled_from(SpotPolicy),
    able=st.fixed_dictionaries({"spot": st.booleans(), "on_demand": st.booleans()}),
    disk_gb=st.sampled_from([D(20), D(501)]),
)
def test_every_offer_that_is_no_candidate_is_counted_once(
    floor: Decimal | None,
    on_demand: Decimal | None,
    max_bid: Decimal | None,
    max_hourly: Decimal | None,
    max_rate: Decimal | None,
    policy: SpotPolicy,
    able: dict[str, Any],
    disk_gb: Decimal,
) -> None:
    spec = a_spec(
        max_bid=max_bid, max_hourly=max_hourly, max_rate=max_rate, spot_policy=policy, disk_gb=disk_gb,
    )  # fmt: skip
    job, market = a_job(spec=spec), a_market(an_offer(floor=floor, on_demand_price=on_demand), **able)
    candidates = price_candidates(job, market, eligible(job, market, START, P), P)
    search, *conditions = (cast("dict[str, int]", dict(note.numbers)) for note in wait_notes(job, market, START, P))
    assert search["fitting"] + sum(n["offers"] for n in conditions) == 1
    can_be_rented = bool(search["fitting"] or search["only_on_demand"])
    assert can_be_rented == bool(candidates)
