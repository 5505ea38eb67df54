"""Whether a machine is what a job asks for."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.host import Arch, HostFacts, HostNeeds, describe
from autopilot.domain.host_fit import host_lack, list_unstated, missing_share
from autopilot.domain.places import COUNTRIES, EUROPE, EUROPEAN_UNION, PARTS, country_of_region
from tests.builders import an_offer

D = Decimal
FACTS = HostFacts(
    cuda=D("12.4"),
    driver="550.54.14",
    compute_cap=D("8.9"),
    arch=Arch.AMD64,
    cpus=D(16),
    ram_gb=D(64),
    shm_gb=D(8),
    disk_mb_per_s=D(1500),
    upload_mbps=D(200),
    country="DE",
    region="eu-central1-a",
)
OFFER = an_offer(host=FACTS, reliability=D("0.98"), download_mbps=D(800))


@pytest.mark.parametrize(
    ("needs", "key"),
    [
        ({"cuda": D("12.4")}, None),
        ({"cuda": D("12.0")}, None),
        ({"cuda": D("12.8")}, "cuda"),
        ({"driver": "550.54.14"}, None),
        ({"driver": "550.54.15"}, "driver"),
        ({"driver": "550"}, None),
        ({"arch": Arch.AMD64}, None),
        ({"arch": Arch.ARM64}, "arch"),
        ({"cpus": D(16)}, None),
        ({"cpus": D(17)}, "cpus"),
        ({"ram_gb": D(65)}, "ram_gb"),
        ({"shm_gb": D(16)}, "shm_gb"),
        ({"disk_mb_per_s": D(2000)}, "disk_mb_per_s"),
        ({"reliability": D("0.98")}, None),
        ({"reliability": D("0.99")}, "reliability"),
        ({"download_mbps": D(801)}, "download_mbps"),
        ({"upload_mbps": D(201)}, "upload_mbps"),
        ({"countries": ("FR", "DE")}, None),
        ({"countries": ("FR",)}, "country"),
        ({"regions": ("europe",)}, None),
        ({"regions": ("eu",)}, None),
        ({"regions": ("eu-central1",)}, None),
        ({"regions": ("eu-central1-a",)}, None),
        ({"regions": ("eu-central",)}, "region"),
        ({"regions": ("asia", "north-america")}, "region"),
    ],
)
def test_a_machine_has_what_is_asked_for(needs: dict[str, Any], key: str | None) -> None:
    lack = host_lack(HostNeeds(**needs), OFFER)
    assert (lack.key if lack else None) == key


@pytest.mark.parametrize(
    "needs",
    [
        {"cuda": D("13.0")},
        {"driver": "580"},
        {"arch": Arch.ARM64},
        {"cpus": D(999)},
        {"ram_gb": D(999)},
        {"shm_gb": D(999)},
        {"disk_mb_per_s": D(9999)},
        {"download_mbps": D(9999)},
        {"upload_mbps": D(9999)},
    ],
)
def test_what_is_unknown_excludes_nothing_and_is_told(needs: dict[str, Any]) -> None:
    silent = an_offer(host=HostFacts(), download_mbps=D(0))
    assert host_lack(HostNeeds(**needs), silent) is None
    assert list_unstated(HostNeeds(**needs), silent) == tuple(needs)
    assert list_unstated(HostNeeds(**needs), OFFER) == ()


def test_a_place_that_is_not_known_is_none_that_was_named() -> None:
    silent = an_offer(host=HostFacts())
    for needs in (HostNeeds(countries=("DE",)), HostNeeds(regions=("eu",))):
        lack = host_lack(needs, silent)
        assert lack is not None
        assert lack.has is None


def test_the_driver_tells_what_cuda_is_not_told() -> None:
    by_driver = an_offer(host=replace(FACTS, cuda=None, driver="535.86.05"))
    lack = host_lack(HostNeeds(cuda=D("12.8")), by_driver)
    assert lack is not None
    assert lack.has == D("12.2")
    assert host_lack(HostNeeds(cuda=D("12.0")), by_driver) is None, "by minor-version compatibility"


def test_a_driver_that_does_not_know_its_gpu_is_left_without_a_word_of_the_job() -> None:
    blackwell = an_offer(gpu="RTX 5090", host=HostFacts(cuda=D("12.4")))
    lack = host_lack(HostNeeds(), blackwell)
    assert lack is not None
    assert (lack.key, lack.has, lack.wanted) == ("gpu_cuda", D("12.4"), D("12.8"))
    assert host_lack(HostNeeds(), an_offer(gpu="RTX 5090", host=HostFacts(cuda=D("12.8")))) is None
    assert host_lack(HostNeeds(), an_offer(gpu="RTX 5090", host=HostFacts())) is None, "unknown is not unfit"


def test_the_nearest_is_the_one_that_lacks_least() -> None:
    shares = [
        missing_share(lack)
        for driver in ("550.1", "525.1")
        if (lack := host_lack(HostNeeds(driver="580"), an_offer(host=HostFacts(driver=driver)))) is not None
    ]
    assert 0 < shares[0] < shares[1] < 1


def test_needs_are_told_in_words() -> None:
    needs = HostNeeds(cuda=D("12.0"), ram_gb=D("64.0"), countries=("DE", "FR"), arch=Arch.AMD64, datacenter=True)
    assert describe(needs) == "CUDA 12, amd64, 64 GB of RAM, in DE or FR, in a datacenter"
    assert describe(HostNeeds()) == ""


def test_parts_of_the_world_are_of_known_countries_and_the_union_is_in_europe() -> None:
    assert EUROPEAN_UNION < EUROPE
    assert len(EUROPEAN_UNION) == 27
    assert all(part <= COUNTRIES for part in PARTS.values())
    assert all(len(code) == 2 and code.isupper() for code in COUNTRIES)
    assert country_of_region("us-central1-a") == "US"
    assert country_of_region("uk-south1") == "GB"
    assert country_of_region("eu-north1") == ""
