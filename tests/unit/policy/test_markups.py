"""Bids by markup: what each would have cost on the record, which one is followed, and when."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal as D
from math import nan
from typing import Any

import numpy as np
import pytest

from autopilot.domain.actions import Acquire, ChangeBid
from autopilot.domain.floors import FloorOutlook, MarkupReplay
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.policy.decide import decide
from autopilot.pricing.auction.replays import MARKUPS, follow, replay
from tests.builders import HOUR, START, a_job, a_lease, a_market, a_spec, an_offer, at, play, seen
from tests.unit.policy.test_auctioned import SHAPE

STEPS = 600


def replayed(*floors: list[float]) -> dict[float, MarkupReplay]:
    rows = np.array(floors)
    return {each.markup: each for each in replay(rows, np.ones(rows.shape[1]), 300.0, 1.0)}


def test_on_a_calm_market_each_markup_costs_itself_and_loses_but_the_start() -> None:
    for markup, each in replayed([0.2] * STEPS).items():
        assert each.paid == pytest.approx(0.2 * markup, rel=0.01)
        assert each.lost == pytest.approx((1 / 6) / (STEPS / 12 - 1 / 6))


def test_where_floors_are_lifted_a_little_and_often_low_bids_lose_time() -> None:
    each = replayed(([0.2] * 5 + [0.26] * 5) * 60, ([0.26] * 5 + [0.2] * 5) * 60)
    assert each[1.02].lost > 0.1
    assert each[1.35].lost < 0.02
    assert each[1.35].paid < each[1.02].paid, "what loads is paid for"


def test_times_dearer_than_on_demand_are_lost_and_what_is_not_seen_is_not_a_rival() -> None:
    half = STEPS // 2
    assert replayed([0.2] * half + [1.5] * half)[1.1].lost == pytest.approx(1.0, abs=0.05)
    assert replayed([0.2] * half + [nan] * half)[1.1].lost < 0.02
    assert replayed([1.5] * STEPS) == {}


def test_the_better_one_did_the_more_it_weighs_and_little_record_says_little() -> None:
    candidates = [MarkupReplay(1.02, 0.2, 0.3), MarkupReplay(1.2, 0.23, 0.0)]
    scarce, ample = (follow(candidates, 1000.0, 1.0, price) for price in (1.0, 0.0))
    assert scarce is not None
    assert ample is not None
    assert scarce.markup == pytest.approx(1.2, abs=0.001)
    assert ample.markup == pytest.approx(1.02, abs=0.02)
    assert dict(scarce.costs) == pytest.approx({1.02: 0.5, 1.2: 0.23})
    short = follow(candidates, 4.0, 1.0, 1.0)
    assert short is not None
    assert 1.1 < short.markup < 1.19
    assert follow([], 10.0, 1.0, 1.0) is None


def by(shape: FloorOutlook, *candidates: MarkupReplay) -> Outlook:
    floors = replace(shape, replayed=candidates, replayed_steps=2000.0)
    return Outlook(auction=replace(SHAPE, floors=floors, shows_running=False))


@pytest.mark.parametrize(("hours", "is_tight"), [(7.8, True), (14.0, False)])
def test_with_little_slack_a_machine_is_bid_on_by_what_did_best(hours: float, is_tight: bool) -> None:
    outlook = by(SHAPE.floors, MarkupReplay(1.02, 0.2, 0.5), MarkupReplay(1.3, 0.22, 0.0))
    market = replace(a_market(an_offer("a", floor=D("0.2"), on_demand_price=D(1))), outlook=outlook)
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + hours * HOUR)
    decision = decide(a_job(spec=spec), market, START, Params())
    told = [dict(note.numbers) for note in decision.notes if note.topic == "markups"]
    assert bool(told) == is_tight
    if is_tight:
        (action,) = decision.actions
        assert isinstance(action, Acquire)
        assert action.bid == D("0.261"), "0.26 and a trifle, rounded up"
        assert told[0]["markup"] == pytest.approx(1.3)
        assert set(told[0]) == {"markup", "x1.02", "x1.3"}


@pytest.mark.parametrize(
    ("offers", "spec_changes", "machine"),
    [
        pytest.param({"a": {"floor": D("0.2")}, "b": {"floor": D("0.21")}}, {}, "a", id="the cheapest"),
        pytest.param(
            {"a": {"floor": D("0.2"), "download_price": D("0.1")}, "b": {"floor": D("0.21")}},
            {},
            "b",
            id="with its traffic",
        ),
        pytest.param(
            {"a": {"floor": D("0.2")}}, {"budget": D("0.05")}, "", id="not where the budget does not pay a start"
        ),
    ],
)
def test_the_cheapest_that_can_be_paid_is_bid_on(
    offers: dict[str, dict[str, Any]], spec_changes: dict[str, Any], machine: str
) -> None:
    outlook = by(SHAPE.floors, MarkupReplay(1.3, 0.22, 0.0))
    shown = [an_offer(name, on_demand_price=D(1), **changes) for name, changes in offers.items()]
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + 7.8 * HOUR, **spec_changes)
    actions = decide(a_job(spec=spec), replace(a_market(*shown), outlook=outlook), START, Params()).actions
    taken = [action.offer.machine_id for action in actions if isinstance(action, Acquire)]
    assert taken == ([machine] if machine else [])


def test_a_raise_is_so_much_over_what_wins() -> None:
    lease = a_lease(bid=D("0.2"), on_demand_price=D(1))
    outlook = by(SHAPE.floors, MarkupReplay(1.02, 0.2, 0.5), MarkupReplay(1.3, 0.22, 0.0))
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + 7.8 * HOUR)
    job = play(a_job(lease, spec=spec), seen(lease, InstanceStatus.STOPPED, at(0), price_to_win=D("0.300")))
    actions = decide(job, replace(a_market(), outlook=outlook), START, Params()).actions
    assert actions == (ChangeBid(lease.id, D("0.390"), actions[0].reason),)


def test_candidates_are_few() -> None:
    assert len(MARKUPS) < 10, "each is replayed at each learning"
