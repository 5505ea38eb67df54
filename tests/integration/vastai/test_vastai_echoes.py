"""What a search shows of machines that we hold: our own bid is not taken for the market's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.echoes import ECHO_LASTS_S
from tests.integration.vastai.vastai_bench import QUERY, Bench

MANY = OfferQuery(
    gpus=(("A100 SXM4", 1), ("A100 SXM4", 4), ("A100 SXM4", 8)),
    min_vram_gb=Decimal(0),
    disk_gb=Decimal(40),
    verified_only=True,
    datacenter_only=False,
)


def host_of(bench: Bench) -> int:
    """The host with eight A100."""
    machines = bench.sandbox.market.machines.values()
    return next(m.spec.machine_id for m in machines if (m.spec.gpu_name, m.spec.gpu_count) == ("A100 SXM4", 8))


@pytest.fixture
async def provider(bench: Bench) -> AsyncIterator[VastaiProvider]:
    """One that searches again after a minute."""
    made = bench.connect(offers_max_age_s=60)
    yield made
    await made.close()


async def on_host(bench: Bench, provider: VastaiProvider) -> dict[int, Offer]:
    """Offers of that host by number of GPUs, from a new search."""
    await bench.clock.sleep(60)
    found = await provider.offers(MANY)
    return {offer.num_gpus: offer for offer in found if offer.machine_id == str(host_of(bench))}


async def test_the_other_gpus_of_a_host_stay_on_offer(bench: Bench, provider: VastaiProvider) -> None:
    before = await on_host(bench, provider)
    await bench.rent_offer(before[1], provider=provider)
    await provider.instances()
    now = await on_host(bench, provider)
    assert set(now) == {1, 4}, "one GPU and four are still free, all eight are not"
    assert now[1].floor == before[1].floor
    assert now[1].offer_id != before[1].offer_id
    assert now[1].on_demand_price == before[1].on_demand_price, "which bounds every bid"
    for _ in range(7):
        await bench.rent_offer((await on_host(bench, provider))[1], provider=provider)
        await provider.instances()
    assert await on_host(bench, provider) == {}


async def test_another_programs_instance_hides_only_what_it_holds(bench: Bench, provider: VastaiProvider) -> None:
    other = bench.connect()
    await bench.rent_offer((await on_host(bench, other))[4], provider=other)
    await provider.instances()
    assert set(await on_host(bench, provider)) == {1, 4}
    await other.close()


async def test_our_own_bid_is_not_the_floor_once_it_is_given_back(bench: Bench, provider: VastaiProvider) -> None:
    before = min(await provider.offers(QUERY), key=lambda offer: offer.floor or Decimal(1000))
    assert before.floor is not None
    bid = (before.floor * Decimal("1.15")).quantize(Decimal("0.001"))
    instance_id = await bench.rent_offer(before, provider=provider, bid=bid)
    await provider.instances()
    machine = bench.sandbox.market.machines[int(before.machine_id)]
    await provider.destroy(instance_id)
    await provider.instances()
    # The list lags: it goes on to show the bid that was there a moment ago.
    true_floor, machine.floor = machine.floor, bid
    await bench.clock.sleep(ECHO_LASTS_S / 2)
    echoed = next(offer for offer in await provider.offers(QUERY) if offer.machine_id == before.machine_id)
    assert echoed.floor == before.floor
    assert echoed.on_demand_price == before.on_demand_price
    # When lists cannot lag any more, that is the floor.
    await bench.clock.sleep(ECHO_LASTS_S)
    believed = next(offer for offer in await provider.offers(QUERY) if offer.machine_id == before.machine_id)
    assert believed.floor == bid
    assert true_floor < bid


async def test_an_on_demand_rental_echoes_no_bid(bench: Bench, provider: VastaiProvider) -> None:
    before = await on_host(bench, provider)
    assert before[1].on_demand_price is not None
    await bench.rent_offer(
        before[1], provider=provider, capacity_type=CapacityType.ON_DEMAND, bid=before[1].on_demand_price
    )
    await provider.instances()
    now = await on_host(bench, provider)
    assert now[1].floor == before[1].floor
