"""What a job asks of the machine: the market's own filters, and the policy's check of what they leave."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.host import Arch, HostNeeds
from autopilot.domain.host_fit import host_lack
from autopilot.domain.offer import OfferQuery
from tests.integration.vastai.vastai_bench import QUERY, Bench

D = Decimal
ANY = replace(QUERY, gpus=(("RTX 4090", 1), ("RTX 3090", 1)), min_vram_gb=D(0), verified_only=False)
HOSTS: tuple[dict[str, Any], ...] = (
    {"cuda_max_good": 12.2, "driver_version": "535.86.05"},
    {"cuda_max_good": 12.4, "driver_version": "550.54.14", "geolocation": "Quebec, CA", "disk_bw": 300.0},
    {"cuda_max_good": 12.8, "driver_version": "570.86.15", "inet_down_mbps": 90.0, "cpu_ram_mb": 32_000},
    {"inet_up_mbps": 20.0, "geolocation": "Germany, DE", "reliability": 0.955},
    {"cpu_cores": 4, "geolocation": "", "cpu_ram_mb": 512_000},
)
"""What each machine has that the others have not, in turn."""


@pytest.fixture
def mixed(bench: Bench) -> Bench:
    for number, machine in enumerate(bench.sandbox.market.machines.values()):
        machine.spec = replace(machine.spec, **HOSTS[number % len(HOSTS)])
    return bench


def asking(**needs: Any) -> OfferQuery:
    return replace(ANY, host=HostNeeds(**needs))


NEEDS: tuple[dict[str, Any], ...] = (
    {"cuda": D("12.0")},
    {"cuda": D("12.8")},
    {"driver": "550"},
    {"driver": "550.54.15"},
    {"cpus": D(16)},
    {"ram_gb": D(64)},
    {"disk_mb_per_s": D(400)},
    {"download_mbps": D(100)},
    {"upload_mbps": D(100)},
    {"reliability": D("0.96")},
    {"countries": ("CA", "DE")},
    {"regions": ("eu",)},
    {"regions": ("europe", "north-america"), "countries": ("DE",)},
    {"arch": Arch.AMD64},
    {"arch": Arch.ARM64},
    {"cuda": D("12.4"), "ram_gb": D(40), "countries": ("CA", "US")},
)


@pytest.mark.slow
@pytest.mark.parametrize("needs", NEEDS, ids=str)
async def test_the_market_s_filter_and_the_policy_s_check_leave_the_same_offers(
    mixed: Bench, needs: dict[str, Any]
) -> None:
    everything = await mixed.provider.offers(ANY)
    fitting = {offer.key for offer in everything if host_lack(HostNeeds(**needs), offer) is None}
    filtered = await mixed.connect().offers(asking(**needs))
    left = {offer.key for offer in filtered if host_lack(HostNeeds(**needs), offer) is None}
    assert left == fitting
    may_be_left = left if "ram_gb" not in needs else {offer.key for offer in everything}  # the market knows no share
    assert {offer.key for offer in filtered} <= may_be_left


async def test_an_offer_tells_what_its_machine_has(mixed: Bench) -> None:
    found = {offer.host.driver: offer for offer in await mixed.provider.offers(ANY)}
    old = found["550.54.14"].host
    assert (old.cuda, old.arch, old.country) == (D("12.4"), Arch.AMD64, "CA")
    assert old.compute_cap in (D("8.6"), D("8.9"))
    assert old.disk_mb_per_s == D(300)
    assert found["570.86.15"].download_mbps == D(90)


async def test_memory_is_the_share_of_the_rented_gpus(bench: Bench) -> None:
    one, two = (
        await bench.provider.offers(replace(ANY, gpus=(("RTX 4090", 1),))),
        await bench.connect().offers(replace(ANY, gpus=(("RTX 4090", 2),))),
    )
    whole = {offer.machine_id: offer for offer in two}
    shared = [(offer.host, whole[offer.machine_id].host) for offer in one if offer.machine_id in whole]
    assert shared
    for half, both in shared:
        assert half.ram_gb is not None
        assert half.cpus is not None
        assert both.cpus == 2 * half.cpus
        assert both.ram_gb == 2 * half.ram_gb


async def test_a_region_of_another_market_costs_no_search(mixed: Bench) -> None:
    assert await mixed.provider.offers(asking(regions=("eu-north1",))) == ()
    assert await mixed.requests("search") == 0


async def test_fewer_rows_of_the_day_s_quota_are_spent_on_hosts_that_do_not_fit(mixed: Bench) -> None:
    everything = await mixed.provider.offers(ANY)
    some = await mixed.connect().offers(asking(cuda=D("12.4")))
    assert 0 < len(some) < len(everything)
    assert all((offer.host.cuda or 0) >= D("12.4") for offer in some)
