"""Renting, bidding, losing and giving back, as the market plays it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.domain.time import utc_day
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused
from tests.integration.vastai.vastai_bench import QUERY, Bench, eventually


def query(*gpus: tuple[str, int], **changes: Any) -> OfferQuery:
    fields: dict[str, Any] = {
        "min_vram_gb": Decimal(0),
        "disk_gb": Decimal(40),
        "verified_only": True,
        "datacenter_only": False,
    }
    return OfferQuery(gpus=gpus, **(fields | changes))


async def test_search_gives_both_prices_of_each_chunk(bench: Bench) -> None:
    offers = await bench.provider.offers(query(("RTX 4090", 1), ("RTX 4090", 2)))
    assert {offer.gpu for offer in offers} == {"RTX 4090"}
    assert {offer.num_gpus for offer in offers} == {1, 2}
    assert len({offer.key for offer in offers}) == len(offers)
    for offer in offers:
        assert offer.floor is not None
        assert offer.on_demand_price is not None
        assert 0 < offer.floor < offer.on_demand_price
        assert offer.verified
        assert offer.ends_at is not None


async def test_search_keeps_to_what_was_asked(bench: Bench) -> None:
    assert await bench.provider.offers(query(("RTX 4090", 1), datacenter_only=True)) == ()
    assert await bench.provider.offers(query(("RTX 4090", 1), min_vram_gb=Decimal(48))) == ()
    assert await bench.provider.offers(query(("RTX 4090", 1), disk_gb=Decimal(9000))) == ()
    verified = await bench.provider.offers(query(("RTX 3090", 1)))
    everything = await bench.provider.offers(query(("RTX 3090", 1), verified_only=False))
    assert len(everything) == len(verified) + 1


async def test_a_chunk_held_by_a_rival_still_has_its_on_demand_price(bench: Bench) -> None:
    offer = await bench.cheapest()
    await bench.control("POST", "rival", machine_id=int(offer.machine_id), num_gpus=1, bid="0.9")
    fresh = await bench.connect().offers(QUERY)
    assert any(found.machine_id == offer.machine_id and found.on_demand_price for found in fresh)


async def test_searches_are_remembered_and_own_machines_left_out(bench: Bench) -> None:
    offers = await bench.provider.offers(QUERY)
    asked = await bench.requests("search")
    assert asked == 2
    instance_id = await bench.rent()
    (rented,) = await bench.provider.instances()
    assert rented.instance_id == instance_id
    left = await bench.provider.offers(QUERY)
    assert {offer.machine_id for offer in offers} - {offer.machine_id for offer in left} == {rented.machine_id}
    assert await bench.requests("search") == asked
    assert 0 < (bench.provider.offers_age_s(QUERY) or 0) < 3600


async def test_watched_floors_cost_one_bid_search_of_few_rows_and_no_job_s(bench: Bench) -> None:
    watched = query(("RTX 4090", 1), floors_only=True)
    found = await bench.provider.offers(watched)
    assert 0 < len(found) <= 8
    assert all(offer.floor and offer.on_demand_price is None and offer.verified for offer in found)
    assert {offer.machine_id for offer in await bench.provider.offers(watched)} == {offer.machine_id for offer in found}
    assert await bench.requests("search") == 1
    for_job = await bench.provider.offers(query(("RTX 4090", 1)))
    assert await bench.requests("search") == 3
    floors = {offer.machine_id: offer.floor for offer in for_job}
    assert all(floors[offer.machine_id] == offer.floor for offer in found)
    await bench.rent_offer(min(for_job, key=lambda offer: offer.floor or Decimal(1000)))
    assert await bench.requests("search") == 3
    (rented,) = await bench.provider.instances()
    left = {offer.machine_id for offer in await bench.provider.offers(watched)}
    assert {offer.machine_id for offer in found} - left == {rented.machine_id}


async def test_an_old_search_is_repeated(bench: Bench) -> None:
    provider = bench.connect(offers_max_age_s=60)
    assert provider.offers_age_s(QUERY) is None
    await provider.offers(QUERY)
    await bench.clock.sleep(60)
    assert (provider.offers_age_s(QUERY) or 0) >= 60
    await provider.offers(QUERY)
    assert await bench.requests("search") == 4
    await provider.close()


async def test_a_winning_bid_is_rented_read_back_and_runs(bench: Bench) -> None:
    offer = await bench.cheapest()
    assert offer.floor is not None
    request = bench.request(offer, bid=Decimal("0.30001"))
    outcome = await bench.provider.create(request)
    assert isinstance(outcome, Done)
    instance = await bench.running(outcome.value.instance_id)
    assert (instance.label, instance.machine_id) == (request.label, offer.machine_id)
    assert instance.capacity_type is CapacityType.SPOT
    assert instance.bid == Decimal("0.301")
    assert instance.storage_rate == offer.storage_rate(Decimal(40)).quantize(instance.storage_rate)
    assert instance.intended_running
    assert await bench.requests("create") == 1


async def test_an_on_demand_rental(bench: Bench) -> None:
    offer = await bench.cheapest()
    assert offer.on_demand_price is not None
    request = bench.request(offer, capacity_type=CapacityType.ON_DEMAND, bid=offer.on_demand_price)
    outcome = await bench.provider.create(request)
    assert isinstance(outcome, Done)
    (instance,) = await bench.provider.instances()
    assert instance.capacity_type is CapacityType.ON_DEMAND
    assert instance.bid == offer.on_demand_price


async def test_a_dearer_on_demand_rental_is_not_as_asked(bench: Bench) -> None:
    offer = await bench.cheapest()
    request = bench.request(offer, capacity_type=CapacityType.ON_DEMAND, bid=Decimal("0.01"))
    outcome = await bench.provider.create(request)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.WRONG_TERMS
    (instance,) = await bench.provider.instances()
    assert instance.instance_id == outcome.instance_id


async def test_a_bid_below_the_floor_rents_nothing(bench: Bench) -> None:
    outcome = await bench.provider.create(bench.request(await bench.cheapest(), bid=Decimal("0.002")))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.BID_TOO_LOW
    assert await bench.provider.instances() == ()


async def test_a_losing_bid_may_leave_a_stopped_instance(bench: Bench) -> None:
    await bench.fault("create", "success_false")
    outcome = await bench.provider.create(bench.request(await bench.cheapest()))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.BID_TOO_LOW
    (instance,) = await bench.provider.instances()
    assert instance.instance_id == outcome.instance_id
    assert instance.status is InstanceStatus.STOPPED
    assert isinstance(await bench.provider.destroy(instance.instance_id), Done)
    assert await bench.provider.instances() == ()


async def test_a_taken_offer_is_gone_and_not_offered_again(bench: Bench) -> None:
    offer = await bench.cheapest()
    await bench.control("POST", "on_demand_arrival", machine_id=int(offer.machine_id))
    outcome = await bench.provider.create(bench.request(offer))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    asked = await bench.requests("search")
    assert offer.offer_id not in {found.offer_id for found in await bench.provider.offers(QUERY)}
    assert await bench.requests("search") == asked


async def test_without_credit_nothing_is_rented(bench: Bench) -> None:
    offer = await bench.cheapest()
    await bench.control("POST", "credit", amount=0)
    outcome = await bench.provider.create(bench.request(offer))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OUT_OF_CREDIT
    assert (await bench.provider.account()).credit == 0


async def test_the_account_shows_its_credit(bench: Bench) -> None:
    assert (await bench.provider.account()).credit == Decimal(100)


async def test_a_bid_is_changed_once_and_as_the_market_takes_it(bench: Bench) -> None:
    instance_id = await bench.rent()
    assert await bench.provider.change_bid(instance_id, Decimal("0.33331")) == Done(Decimal("0.334"))
    sent = await bench.requests("bid")
    assert await bench.provider.change_bid(instance_id, Decimal("0.3335")) == Done(Decimal("0.334"))
    assert await bench.requests("bid") == sent
    (instance,) = await bench.provider.instances()
    assert instance.bid == Decimal("0.334")
    assert await bench.provider.change_bid(instance_id, Decimal(99)) == Done(Decimal(32))
    assert await bench.provider.change_bid(instance_id, Decimal(0)) == Done(Decimal("0.001"))


async def test_a_bid_that_did_not_take_is_sent_again(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("bid", "no_effect_success")
    assert await bench.provider.change_bid(instance_id, Decimal("0.4")) == Done(Decimal("0.4"))
    await bench.provider.instances()
    assert await bench.provider.change_bid(instance_id, Decimal("0.4")) == Done(Decimal("0.4"))
    (instance,) = await bench.provider.instances()
    assert instance.bid == Decimal("0.4")


async def test_outbid_queued_raised_and_resumed(bench: Bench) -> None:
    instance_id = await bench.rent()
    bid = (await bench.running(instance_id)).bid
    await bench.control("POST", "rival", instance_id=int(instance_id), bid=bid + Decimal("0.05"))
    paused = await bench.seen(instance_id, lambda instance: instance.status is InstanceStatus.STOPPED)
    assert not paused.intended_running
    started = await bench.provider.start(instance_id)
    assert isinstance(started, Refused)
    assert started.code is RefusalCode.QUEUED
    queued = await bench.provider.instance(instance_id)
    assert queued is not None
    assert (queued.status, queued.intended_running) == (InstanceStatus.STOPPED, True)
    assert isinstance(await bench.provider.change_bid(instance_id, bid + Decimal("0.06")), Done)
    assert (await bench.running(instance_id)).bid == bid + Decimal("0.06")


async def test_a_stop_of_ours_and_a_start(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.running(instance_id)
    assert await bench.provider.stop(instance_id) == Done(None)
    stopped = await bench.provider.instance(instance_id)
    assert stopped is not None
    assert (stopped.status, stopped.intended_running) == (InstanceStatus.STOPPED, False)
    assert await bench.provider.start(instance_id) == Done(None)
    await bench.running(instance_id)


async def test_a_silent_host_is_offline(bench: Bench) -> None:
    instance_id = await bench.rent()
    machine = (await bench.running(instance_id)).machine_id
    await bench.control("POST", "host", machine_id=int(machine), state="offline")
    await bench.seen(instance_id, lambda instance: instance.status is InstanceStatus.OFFLINE)


async def test_destroy_and_what_is_left(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("destroy", "http_429")
    limited = await bench.provider.destroy(instance_id)
    assert isinstance(limited, Refused)
    assert limited.code is RefusalCode.RATE_LIMITED
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert await bench.provider.instance(instance_id) is None
    assert await bench.provider.instances() == ()
    assert await bench.provider.destroy(instance_id) == Done(None)
    for change in (bench.provider.start(instance_id), bench.provider.change_bid(instance_id, Decimal("0.2"))):
        outcome = await change
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.NOT_FOUND


async def test_a_destroy_that_did_nothing_is_seen_in_the_list(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("destroy", "no_effect_success")
    assert await bench.provider.destroy(instance_id) == Done(None)
    assert [instance.instance_id for instance in await bench.provider.instances()] == [instance_id]


async def test_sixty_instances_come_in_three_pages(bench: Bench) -> None:
    await bench.fault("create", "success_false", times=None)
    bids = bench.request(await bench.cheapest())
    made: set[str | None] = set()
    for _ in range(60):
        outcome = await bench.provider.create(bids)
        assert isinstance(outcome, Refused)
        made.add(outcome.instance_id)
    listed = await bench.provider.instances()
    assert {instance.instance_id for instance in listed} == made
    assert len(listed) == 60
    assert await bench.requests("list") == 3
    await bench.fault("list", "truncated_page")
    with pytest.raises(MarketUnknown, match="incomplete"):
        await bench.provider.instances()


async def test_a_list_that_lags_behind_is_not_believed(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("list", "stale_list", lag_s=3600)
    with pytest.raises(MarketUnknown, match="stale"):
        await bench.provider.instances()
    assert [instance.instance_id for instance in await bench.provider.instances()] == [instance_id]


async def test_an_instance_lost_behind_our_back_is_confirmed_by_a_read(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.provider.instances()
    other = bench.connect()
    assert await other.destroy(instance_id) == Done(None)
    shown = await bench.requests("show")
    assert await bench.provider.instances() == ()
    assert await bench.requests("show") == shown + 1
    await other.close()


async def test_rows_with_nulls_are_read(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.fault("list", "null_fields")
    await bench.fault("show", "null_fields")
    assert [instance.instance_id for instance in await bench.provider.instances()] == [instance_id]
    assert await bench.provider.instance(instance_id) is not None


async def test_charges_are_what_the_market_billed(bench: Bench) -> None:
    instance_id = await bench.rent()
    await bench.running(instance_id)
    await bench.control("POST", "traffic", instance_id=int(instance_id), down_gb=20, up_gb=3)
    await bench.clock.sleep(400)
    assert isinstance(await bench.provider.destroy(instance_id), Done)
    today = utc_day(bench.clock.now())
    since, until = today - timedelta(days=2), today + timedelta(days=1)
    charges = await bench.provider.charges(since, until)
    (book,) = (await bench.control("GET", "books"))["books"]
    assert {charge.instance_id for charge in charges} == {instance_id}
    assert sum(charge.amount for charge in charges) == Decimal(book["billed"])
    assert {charge.kind for charge in charges} == {CostKind.COMPUTE, CostKind.STORAGE_RUNNING, CostKind.BANDWIDTH}
    assert all(since <= charge.day <= until for charge in charges)
    assert await bench.provider.charges(since - timedelta(days=9), since - timedelta(days=8)) == ()


@pytest.mark.slow
async def test_charges_of_many_instances_come_in_pages(bench: Bench) -> None:
    await bench.fault("create", "success_false", times=None)
    bids = bench.request(await bench.cheapest())
    created: list[str | None] = []
    for _ in range(101):
        outcome = await bench.provider.create(bids)
        assert isinstance(outcome, Refused)
        created.append(outcome.instance_id)
    await bench.clock.sleep(60)
    today = utc_day(bench.clock.now())
    charges = await bench.provider.charges(today - timedelta(days=1), today)
    assert {charge.instance_id for charge in charges} == set(created)
    assert await bench.requests("charges") >= 2


async def test_many_at_once_stay_within_the_limits(bench: Bench) -> None:
    instance_ids = [await bench.rent(f"ap1.test.{n}") for n in range(3)]
    outcomes = await asyncio.gather(*(bench.provider.change_bid(known, Decimal("0.5")) for known in instance_ids))
    assert outcomes == [Done(Decimal("0.5"))] * 3
    gone = await asyncio.gather(*(bench.provider.destroy(known) for known in instance_ids))
    assert gone == [Done(None)] * 3

    async def empty() -> bool | None:
        return True if await bench.provider.instances() == () else None

    assert await eventually(empty)
