"""Plans by recorded floors: what is read of them, and when they are what is played."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from autopilot.domain.floors import Bidders
from autopilot.domain.job import GpuChoice
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.prices import PriceObservation
from autopilot.planning.floor_prospects import floors_question, read_cheapest
from autopilot.planning.plan import plan
from autopilot.policy.eligibility import eligible
from autopilot.pricing.auction.shadows import expected_bidders
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer

PARAMS = Params()
KEY = ("vastai", "RTX 4090", 1)


def seen(minutes_ago: int, floor: str | None, **changes: Any) -> PriceObservation:
    values: dict[str, Any] = {
        "provider": "vastai", "machine_id": "machine-a", "gpu": "RTX 4090", "num_gpus": 1,
        "floor": None if floor is None else D(floor), "on_demand_price": D("0.6"),
    }  # fmt: skip
    return PriceObservation(observed_at=START - timedelta(minutes=minutes_ago), **(values | changes))


def asked(
    record: tuple[float, ...],
    offers: int = 1,
    able: dict[str, Any] | None = None,
    leases: Any = (),
    bidders: Bidders | None = None,
    **spec: Any,
) -> Any:
    job = a_job(*leases, spec=a_spec(**{"work_estimate": 10 * HOUR, "deadline": START + 30 * HOUR, **spec}))
    market = a_market(*(an_offer(f"machine-{number}") for number in range(offers)), **(able or {}))
    market = replace(market, outlook=Outlook(bidders=bidders))
    candidates = price_candidates(job, market, eligible(job, market, START, PARAMS), PARAMS)
    return floors_question(job, candidates, market, {KEY: record}, START, PARAMS)


async def test_the_cheapest_of_each_step_that_was_recorded_is_read() -> None:
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.prices.add(
            [
                seen(8 * 24 * 60, "0.10"),
                seen(35, "0.30"),
                seen(31, "0.25", machine_id="machine-b"),
                seen(31, "0.20", num_gpus=2),
                seen(31, "0.01", gpu="RTX 3090"),
                seen(5, "0.40"),
                seen(2, None, machine_id="machine-c"),
            ]
        )
    async with store.snapshot() as uow:
        found = await read_cheapest(uow, [an_offer()], START)
    assert found == {KEY: [0.25, 0.40], ("vastai", "RTX 4090", 2): [0.20]}


def test_a_day_of_record_is_played_and_less_of_it_is_not() -> None:
    day = (0.25,) * 144
    found = asked(day)
    assert (found.floors, found.left_h, found.work.left_h) == ((*day, 0.2), 30.0, 30.0)
    assert asked(day[:-1]) is None
    assert asked(day, able={"can_rebid": False}) is None, "nothing is auctioned there"
    assert asked(day, gpus=(GpuChoice("RTX 4090"), GpuChoice("RTX 3090"))) is None
    endless = asked(day, deadline=None)
    assert (endless.left_h, endless.work.left_h) == (60.0, inf)


def test_several_machines_are_played_by_their_floor_of_now_where_nothing_is_recorded_and_that_is_less_sure() -> None:
    assert asked((), offers=3) is None
    first = asked((), offers=4)
    assert first.floors == (0.2,)
    assert first.bidders == expected_bidders(0.2, pays_bid=True)
    assert first.level_spread > asked((0.2,) * 144).level_spread


def test_what_a_job_falls_back_to_is_what_it_holds_or_what_is_offered() -> None:
    day = (0.25,) * 144
    assert asked(day).on_demand_price == 0.6
    assert asked(day, fall_back=False).work.left_h == inf, "no deadline forces it"
    held = a_lease(capacity_type=CapacityType.ON_DEMAND, bid=D("0.7"))
    assert asked(day, leases=(held,), fall_back=False).on_demand_price == pytest.approx(0.7, abs=1e-3)
    assert asked(day, leases=(a_lease(bid=D("0.31")),)).work.bid == 0.31


def test_what_bidders_have_seen_is_what_is_played() -> None:
    seen_before = expected_bidders(0.4, pays_bid=True)
    assert asked((0.25,) * 144, bidders=seen_before).bidders is seen_before


def test_a_record_of_cheaper_machines_than_fit_counts_as_dearer() -> None:
    assert asked((0.1,) * 144).floors == (0.2,) * 145
    assert asked((0.1,) * 142 + (0.2, 0.1)).floors[0] == 0.1, "such a floor was there in the last hour"


@pytest.mark.slow
@pytest.mark.parametrize("floor", ["0.25", "0.45"])
def test_a_plan_costs_what_floors_were_and_not_what_they_are_for_the_moment(floor: str) -> None:
    job = a_job(spec=a_spec(work_estimate=10 * HOUR, deadline=START + 13 * HOUR))
    market = a_market(an_offer())
    record = {KEY: (float(floor),) * 7 * 144}
    answer = plan(job, market, START, PARAMS, cheapest=record).answer
    hour = (D(floor) + D("0.004")) * D("1.04")
    assert 9 * hour < D(answer["forecast"]["p50"]) < 12 * hour
