"""Renting, losing, resuming and giving back, as the sandbox's RunPod plays it, in all of its modes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.instance import CostKind, InstanceStatus, Stopper
from autopilot.domain.offer import CapacityType
from autopilot.domain.time import utc_day
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from tests.integration.runpod.runpod_bench import KEY, QUERY, Bench, eventually

ON_DEMAND: dict[str, Any] = {"capacity_type": CapacityType.ON_DEMAND}


# -- spot as it should be


async def test_offers_give_both_prices_of_each_pool(bench: Bench) -> None:
    offers = await bench.provider.offers(replace(QUERY, gpus=(("RTX 4090", 1), ("RTX 4090", 2), ("A100 SXM", 4))))
    assert {(offer.gpu, offer.num_gpus) for offer in offers} == {("RTX 4090", 1), ("RTX 4090", 2), ("A100 SXM", 4)}
    assert len({offer.key for offer in offers}) == len(offers)
    for offer in offers:
        assert offer.floor is not None
        assert offer.on_demand_price is not None
        assert 0 < offer.floor < offer.on_demand_price
    one, two = (
        next(offer for offer in offers if offer.num_gpus == count and offer.datacenter and offer.gpu == "RTX 4090")
        for count in (1, 2)
    )
    assert two.on_demand_price == 2 * (one.on_demand_price or 0)
    assert bench.provider.capabilities.spot


async def test_a_bid_at_the_floor_of_several_gpus_wins(bench: Bench) -> None:
    query = replace(QUERY, gpus=(("A100 SXM", 3),))
    offer = await bench.cheapest(query)
    assert offer.floor is not None
    instance_id = await bench.rent(query=query, bid=offer.floor)
    (rented,) = await bench.provider.instances()
    assert (rented.instance_id, rented.num_gpus, rented.capacity_type) == (instance_id, 3, CapacityType.SPOT)
    assert offer.floor <= rented.bid <= offer.floor + Decimal("0.00001")
    assert rented.machine_id == offer.machine_id


@pytest.mark.parametrize("sandbox_options", [{"runpod_pull_s": 86_400.0 * 30}])
async def test_a_pod_whose_image_is_on_its_way_boots(bench: Bench) -> None:
    await bench.rent("ap1.test.boots")
    (booting,) = await bench.provider.instances()
    assert (booting.label, booting.status) == ("ap1.test.boots", InstanceStatus.PROVISIONING)


async def test_a_spot_pod_runs(bench: Bench) -> None:
    instance_id = await bench.rent()
    running = await bench.in_state(instance_id, InstanceStatus.RUNNING)
    assert running.intended_running
    assert running.storage_rate == Decimal("0.005555556")


async def test_a_create_that_took_and_was_answered_by_nothing_is_found(bench: Bench) -> None:
    await bench.cheapest()  # the probe for spot is over
    await bench.control("POST", "fault", on="podRentInterruptable", kind="effect_then_null")
    instance_id = await bench.rent()
    assert [pod["id"] for pod in await bench.pods()] == [instance_id]


async def test_a_create_that_was_answered_by_nothing_and_did_not_take_is_refused(bench: Bench) -> None:
    offer = await bench.cheapest()
    await bench.control("POST", "fault", on="podRentInterruptable", kind="null_result")
    outcome = await bench.provider.create(bench.request(offer))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    assert await bench.pods() == []


@pytest.mark.parametrize("capacity_type", [CapacityType.SPOT])
async def test_the_market_itself_ends_a_pod_that_outlives_its_lease(bench: Bench, capacity_type: CapacityType) -> None:
    """The one switch that works without us."""
    ends_by = bench.clock.now() + timedelta(hours=1)
    await bench.rent(ends_by=ends_by, capacity_type=capacity_type)

    async def gone() -> bool | None:
        return None if await bench.pods() else True

    await eventually(gone)
    [ended] = [entry for entry in bench.sandbox.runpod.journal.entries if entry.kind == "pod.terminated"]
    assert (ended.at, ended.as_json()["cause"]) == (ends_by.replace(microsecond=0), "timer")


async def test_outbid_and_resumed_with_a_higher_bid(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    outcome = await bench.provider.change_bid(instance_id, Decimal("0.29"))
    assert isinstance(outcome, Refused)
    rival = await bench.control("POST", "rival", pod_id=instance_id, bid="0.25")
    outbid = await bench.in_state(instance_id, InstanceStatus.STOPPED)
    assert outbid.message.startswith("Outbid: ")
    assert outbid.stopped_by is Stopper.BIDDER
    assert outbid.price_to_win is not None
    assert outbid.price_to_win > Decimal("0.25"), "the rival's"
    assert not outbid.intended_running
    assert outbid.storage_rate == Decimal("0.005555556")
    too_low = await bench.provider.change_bid(instance_id, Decimal("0.21"))
    assert isinstance(too_low, Refused)
    assert too_low.code is RefusalCode.OFFER_GONE
    assert await bench.provider.change_bid(instance_id, Decimal("0.29")) == Done(Decimal("0.29"))
    assert await bench.provider.start(instance_id) == Done(None)
    running = await bench.in_state(instance_id, InstanceStatus.RUNNING)
    assert running.bid == Decimal("0.29")
    assert rival["id"] is not None


async def test_a_pod_that_its_user_stops_says_so_and_no_more_once_it_runs_again(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    await bench.control("POST", "stop", pod_id=instance_id)
    stopped = await bench.in_state(instance_id, InstanceStatus.STOPPED)
    assert stopped.stopped_by is Stopper.USER
    assert await bench.provider.start(instance_id) == Done(None)
    assert (await bench.in_state(instance_id, InstanceStatus.RUNNING)).stopped_by is None


async def test_an_on_demand_renter_cannot_be_outbid(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    await bench.control("POST", "on_demand_arrival", pod_id=instance_id)
    await bench.in_state(instance_id, InstanceStatus.STOPPED)
    for outcome in (
        await bench.provider.change_bid(instance_id, Decimal("9")),
        await bench.provider.start(instance_id),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.OFFER_GONE
        assert "not enough free GPUs" in outcome.message


async def test_a_bid_below_the_floor_is_refused(bench: Bench) -> None:
    outcome = await bench.provider.create(bench.request(await bench.cheapest(), bid=Decimal("0.01")))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    assert await bench.pods() == []


# -- on demand, stop, start, destroy


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [{}, ON_DEMAND])
async def test_stop_start_and_destroy(bench: Bench, capacity: dict[str, Any]) -> None:
    instance_id = await bench.rent(**capacity)
    running = await bench.in_state(instance_id, InstanceStatus.RUNNING)
    assert running.capacity_type is capacity.get("capacity_type", CapacityType.SPOT)
    assert await bench.provider.stop(instance_id) == Done(None)
    stopped = await bench.in_state(instance_id, InstanceStatus.STOPPED)
    assert stopped.bid == running.bid
    assert await bench.provider.start(instance_id) == Done(None)
    again = await bench.in_state(instance_id, InstanceStatus.RUNNING)
    assert again.bid == running.bid
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.provider.instance(instance_id) is None
    assert await bench.provider.instances() == ()
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.pods() == []


@pytest.mark.parametrize("capacity", [{}, ON_DEMAND])
async def test_a_pod_of_a_team_is_stopped_and_destroyed(bench: Bench, capacity: dict[str, Any]) -> None:
    market = bench.connect(team_id="team-1")
    rented = await market.create(bench.request(await bench.cheapest(), **capacity))
    assert isinstance(rented, Done)
    instance_id = rented.value.instance_id
    assert [pod["team"] for pod in await bench.pods()] == ["team-1"]
    assert await bench.provider.instance(instance_id) is None
    assert await market.stop(instance_id) == Done(None)
    (stopped,) = await market.instances()
    assert stopped.status is InstanceStatus.STOPPED
    assert await market.destroy(instance_id) == Done(None)
    assert await bench.pods() == []
    await market.close()


async def test_on_demand_comes_by_rest_with_the_price_that_was_seen(bench: Bench) -> None:
    offer = await bench.cheapest()
    instance_id = await bench.rent(**ON_DEMAND)
    assert await bench.requests("v2.create") == 1
    (rented,) = await bench.provider.instances()
    assert (rented.instance_id, rented.bid) == (instance_id, offer.on_demand_price)


async def test_what_costs_more_than_was_seen_is_refused_and_named(bench: Bench) -> None:
    request = bench.request(await bench.cheapest(), **ON_DEMAND)
    outcome = await bench.provider.create(replace(request, bid=Decimal("0.1")))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.WRONG_TERMS
    assert outcome.instance_id in {pod["id"] for pod in await bench.pods()}


async def test_other_peoples_pods_are_listed_too(bench: Bench) -> None:
    other = bench.connect()
    await other.offers(QUERY)
    await other.create(bench.request(await bench.cheapest(), "somebody else's"))
    assert [instance.label for instance in await bench.provider.instances()] == ["somebody else's"]
    await other.close()


# -- money


async def test_the_bill_is_the_market_s_own_book(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    await bench.clock.sleep(1200)
    assert await bench.provider.stop(instance_id) == Done(None)
    await bench.clock.sleep(600)
    assert await bench.provider.destroy(instance_id) == Done(None)
    await bench.clock.sleep(60)
    today = utc_day(bench.clock.now())
    charges = await bench.provider.charges(today - timedelta(days=1), today)
    (book,) = (await bench.control("GET", "books"))["books"]
    billed = {kind: sum((charge.amount for charge in charges if charge.kind is kind), Decimal(0)) for kind in CostKind}
    cost = {kind: Decimal(amount) for kind, amount in book["cost"].items()}
    assert abs(billed[CostKind.COMPUTE] - cost["gpu"]) < Decimal("1e-8")
    assert abs(billed[CostKind.STORAGE_RUNNING] - cost["disk"]) < Decimal("1e-8")
    assert cost["gpu"] > 0
    assert cost["disk"] > 0


async def test_credit_and_what_no_credit_does(bench: Bench) -> None:
    assert (await bench.provider.account()).credit == Decimal(100)
    offer = await bench.cheapest()
    await bench.control("POST", "balance", amount="0.01")
    for capacity in ({}, ON_DEMAND):
        outcome = await bench.provider.create(bench.request(offer, **capacity))
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.OUT_OF_CREDIT
    await bench.provider.instances()
    assert ((await bench.provider.account()).credit or Decimal(1)) <= Decimal("0.01")


# -- the four modes


@pytest.fixture(params=["normal", "no_supply", "mutation_removed", "graphql_gone"])
async def mode(request: pytest.FixtureRequest, bench: Bench) -> str:
    await bench.mode(request.param)
    return str(request.param)


@pytest.mark.slow
async def test_a_pod_is_to_be_had_in_every_mode(bench: Bench, mode: str) -> None:
    """As a policy would: spot where it is offered, and what is left when that is refused."""
    for attempt in range(5):
        offer = await bench.cheapest()
        outcome = await bench.provider.create(bench.request(offer, f"ap1.test.{attempt}"))
        if isinstance(outcome, Done):
            break
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.OFFER_GONE
    else:
        pytest.fail("nothing could be rented")
    instance_id = outcome.value.instance_id
    running = await bench.in_state(instance_id, InstanceStatus.RUNNING)
    spot = mode == "normal"
    assert bench.provider.capabilities.spot is spot
    assert running.capacity_type is (CapacityType.SPOT if spot else CapacityType.ON_DEMAND)
    credit = (await bench.provider.account()).credit
    assert (credit is None) is (mode == "graphql_gone")
    assert credit is None or 99 < credit <= 100
    (listed,) = await bench.provider.instances()
    assert listed.instance_id == instance_id
    assert listed.machine_id == offer.machine_id
    assert await bench.provider.stop(instance_id) == Done(None)
    await bench.in_state(instance_id, InstanceStatus.STOPPED)
    assert await bench.provider.start(instance_id) == Done(None)
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.provider.instances() == ()
    assert await bench.pods() == []


@pytest.mark.parametrize(
    ("mode_found", "words"),
    [
        ("normal", "takes spot requests"),
        ("mutation_removed", "not in the API any more"),
        ("graphql_gone", "withdrawn"),
    ],
)
async def test_the_reason_is_given_before_anything_is_rented(bench: Bench, mode_found: str, words: str) -> None:
    await bench.mode(mode_found)
    await bench.provider.account()
    assert words in bench.provider.spot_reason


async def test_a_spot_pod_survives_the_end_of_graphql(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    await bench.mode("graphql_gone")
    (left,) = await bench.provider.instances()
    assert (left.instance_id, left.capacity_type) == (instance_id, CapacityType.SPOT)
    fresh = bench.connect()
    (found,) = await fresh.instances()
    assert found.capacity_type is CapacityType.SPOT
    assert await fresh.destroy(instance_id) == Done(None)
    await fresh.close()


# -- faults

HASTY_S = 15
"""Until a client gives an answer up that never comes. What it asks before has as long: a busy computer is slow."""


@pytest.mark.parametrize(
    "kind", ["effect_then_500", "effect_then_timeout", "effect_then_reset", "html", "empty", "bad_json"]
)
@pytest.mark.parametrize("capacity", [{}, ON_DEMAND])
async def test_a_create_whose_answer_is_lost_is_unknown_and_found_by_its_label(
    bench: Bench, kind: str, capacity: dict[str, Any]
) -> None:
    offer = await bench.cheapest()
    provider = bench.connect(timeout_s=HASTY_S) if kind == "effect_then_timeout" else bench.connect()
    await provider.offers(QUERY)
    await bench.fault("v2.create" if capacity else "podRentInterruptable", kind)
    outcome = await provider.create(bench.request(offer, "ap1.test.lost", **capacity))
    assert isinstance(outcome, Unknown)
    assert [instance.label for instance in await bench.provider.instances()] == ["ap1.test.lost"]
    assert len(await bench.pods()) == 1
    await provider.close()


@pytest.mark.parametrize("kind", ["http_500", "http_502", "reset", "cloudflare_1010", "internal_error", "data_null"])
async def test_a_create_that_failed_on_the_way_is_not_repeated(bench: Bench, kind: str) -> None:
    request = bench.request(await bench.cheapest())
    before = await bench.requests("podRentInterruptable")
    await bench.fault("podRentInterruptable", kind)
    assert isinstance(await bench.provider.create(request), Unknown)
    assert await bench.requests("podRentInterruptable") == before + 1
    assert await bench.pods() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["http_410", "http_429", "http_500", "http_502", "reset", "effect_then_500", "html", "internal_error"]
)
async def test_a_terminate_is_done_only_when_the_pod_is_gone(bench: Bench, kind: str) -> None:
    instance_id = await bench.rent()
    await bench.fault("podTerminate", kind)
    outcome = await bench.provider.destroy(instance_id)
    assert isinstance(outcome, Done) is (await bench.pods() == [])
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.pods() == []


async def test_a_list_that_leaves_pods_out_is_not_believed(bench: Bench) -> None:
    for label in ("ap1.test.one", "ap1.test.two"):
        await bench.rent(label, query=replace(QUERY, gpus=(("RTX A4000", 1),), min_vram_gb=Decimal(0)))
    assert len(await bench.provider.instances()) == 2
    await bench.fault("myself", "truncated_list")
    with pytest.raises(MarketUnknown, match="stale"):
        await bench.provider.instances()
    assert len(await bench.provider.instances()) == 2


@pytest.mark.parametrize("kind", ["http_500_html", "cloudflare_1010", "cloudflare_1010_with_200"])
async def test_reads_get_over_a_hiccup(bench: Bench, kind: str) -> None:
    await bench.rent()
    await bench.fault("myself", kind)
    assert len(await bench.provider.instances()) == 1


async def test_a_telemetry_gap_is_no_stop(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    await bench.fault("myself", "null_runtime")
    (instance,) = await bench.provider.instances()
    assert instance.status is InstanceStatus.RUNNING


async def test_a_pod_that_never_gets_a_runtime_is_never_running(bench: Bench) -> None:
    offer = await bench.cheapest()
    await bench.fault("podRentInterruptable", "no_runtime")
    outcome = await bench.provider.create(bench.request(offer))
    assert isinstance(outcome, Done)
    await bench.clock.sleep(1200)
    (instance,) = await bench.provider.instances()
    assert instance.status is InstanceStatus.PROVISIONING


@pytest.mark.slow
async def test_a_host_that_is_lost_goes_offline_and_can_be_given_back(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.in_state(instance_id, InstanceStatus.RUNNING)
    (pod,) = await bench.pods()
    await bench.control("POST", "host", machine_id=pod["machine_id"], state="vanished")
    (silent,) = await bench.provider.instances()
    assert silent.status is InstanceStatus.RUNNING
    await bench.in_state(instance_id, InstanceStatus.OFFLINE)
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.provider.instances() == ()


async def test_an_outbid_pod_may_vanish_altogether(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.provider.instances()
    bench.sandbox.runpod.config = replace(bench.sandbox.runpod.config, vanish_probability=1.0)
    await bench.control("POST", "rival", pod_id=instance_id, bid="0.25")
    assert await bench.provider.instances() == ()
    assert await bench.provider.instance(instance_id) is None


async def test_a_wrong_key(bench: Bench) -> None:
    provider = bench.connect(api_key="not-" + KEY)
    with pytest.raises(MarketUnknown) as raised:
        await provider.instances()
    assert raised.value.code is RefusalCode.NO_RIGHTS
    assert not provider.capabilities.spot
    outcome = await provider.destroy("fkjbybgpwuvmhk")
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.NO_RIGHTS
    await provider.close()
