"""What a job asks of the machine: the market chooses it, so it is asked in the search and again in the rental."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.host import HostNeeds
from autopilot.domain.host_fit import host_lack, list_unstated
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.ports.provider import Done, Refused
from tests.integration.runpod.runpod_bench import QUERY, Bench

D = Decimal
ANY = replace(QUERY, gpus=(("RTX 3090", 1), ("RTX A4000", 1), ("RTX 4090", 1)), min_vram_gb=D(0))


def asking(**needs: Any) -> OfferQuery:
    return replace(ANY, host=HostNeeds(**needs))


def meets(bench: Bench, pod: dict[str, Any], needs: HostNeeds) -> bool:
    spec = bench.sandbox.runpod.machines[pod["machine_id"]].spec
    return (
        spec.vcpus_per_gpu >= (needs.cpus or 0)
        and spec.memory_gb_per_gpu >= (needs.ram_gb or 0)
        and spec.download_mbps >= (needs.download_mbps or 0)
        and spec.upload_mbps >= (needs.upload_mbps or 0)
        and D(spec.cuda_version) >= (needs.cuda or 0)
        and (not needs.countries or spec.country in needs.countries)
        and (not needs.regions or (spec.data_center_id or "").lower() in needs.regions)
    )


def places_of(bench: Bench) -> tuple[str, str]:
    """A country of the community cloud and a data centre that have one of the GPUs asked for."""
    specs = [machine.spec for machine in bench.sandbox.runpod.machines.values() if machine.spec.gpu_type.display_name
             in ("RTX 3090", "RTX A4000", "RTX 4090")]  # fmt: skip
    country = next(spec.country for spec in specs if spec.data_center_id is None)
    return country, next(spec.data_center_id for spec in specs if spec.data_center_id is not None)


@pytest.mark.parametrize(
    "needs",
    [
        {"cuda": D("12.8")},
        {"cpus": D(8)},
        {"ram_gb": D(36)},
        {"download_mbps": D(2000)},
        {"upload_mbps": D(900), "cuda": D("12.0")},
    ],
    ids=str,
)
async def test_what_is_rented_has_what_was_asked_for(bench: Bench, needs: dict[str, Any]) -> None:
    asked = HostNeeds(**needs)
    offers = await bench.provider.offers(asking(**needs))
    for number, offer in enumerate(offers):
        assert host_lack(asked, offer) is None
        assert list_unstated(asked, offer) == ()
        outcome = await bench.provider.create(bench.request(offer, f"ap1.test.{number}", host=asked))
        assert isinstance(outcome, Done), outcome
    pods = await bench.pods()
    assert len(pods) == len(offers)
    assert all(meets(bench, pod, asked) for pod in pods)


async def test_a_pool_tells_nothing_that_was_not_asked(bench: Bench) -> None:
    for offer in await bench.provider.offers(ANY):
        needs = HostNeeds(cuda=D("12.8"), ram_gb=D(64), disk_mb_per_s=D(500))
        assert host_lack(needs, offer) is None
        assert list_unstated(needs, offer) == ("cuda", "ram_gb", "disk_mb_per_s")
        assert host_lack(HostNeeds(countries=("US",)), offer) is not None


async def test_a_country_is_of_the_community_cloud_and_a_region_is_a_data_centre(bench: Bench) -> None:
    country, data_center = places_of(bench)
    for needs in (HostNeeds(countries=(country, "AQ")), HostNeeds(regions=(data_center.lower(),))):
        offers = await bench.provider.offers(replace(ANY, host=needs))
        assert offers
        for number, offer in enumerate(offers):
            assert host_lack(needs, offer) is None
            assert offer.datacenter == bool(needs.regions)
            label = f"ap1.test.{needs.regions}{number}"[:40]
            assert isinstance(await bench.provider.create(bench.request(offer, label, host=needs)), Done)
    pods = await bench.pods()
    assert {
        bench.sandbox.runpod.machines[pod["machine_id"]].spec.country
        for pod in pods
        if bench.sandbox.runpod.machines[pod["machine_id"]].spec.data_center_id is None
    } == {country}


async def test_a_part_of_the_world_with_many_countries_is_not_guessed_at(bench: Bench) -> None:
    assert await bench.provider.offers(asking(regions=("europe",))) == ()
    country, _ = places_of(bench)
    assert await bench.provider.offers(asking(regions=("asia",), countries=("US",))) == ()
    assert all(offer.host.country == country for offer in await bench.provider.offers(asking(countries=(country,))))


async def test_without_graphql_a_place_is_neither_offered_nor_rented(bench: Bench) -> None:
    country, _ = places_of(bench)
    offers: tuple[Offer, ...] = await bench.provider.offers(asking(countries=(country,)))
    await bench.mode("graphql_gone")
    fresh = bench.connect()
    assert await fresh.offers(asking(countries=(country,))) == ()
    outcome = await fresh.create(bench.request(replace(offers[0], floor=None), host=HostNeeds(countries=(country,))))
    assert isinstance(outcome, Refused)
    assert await bench.pods() == []
