from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.certificate import Lack
from autopilot.domain.host import Arch, HostFacts, HostNeeds
from autopilot.domain.job import GpuChoice, Trust
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Deadline, Params, Timing, TrafficSizes
from autopilot.policy.eligibility import eligible, why_not
from autopilot.pricing.rule.cost import price_candidates
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer
from tests.leases import change_lease


@pytest.mark.parametrize(
    ("spec_changes", "offer_changes", "fits"),
    [
        ({}, {}, True),
        ({}, {"gpu": "rtx 4090"}, True),
        ({}, {"gpu": "RTX 3090"}, False),
        ({}, {"num_gpus": 2}, False),
        ({"gpus": (GpuChoice("RTX 4090", 2), GpuChoice("RTX 3090"))}, {"num_gpus": 2}, True),
        ({"gpus": (GpuChoice("RTX 4090", 2), GpuChoice("RTX 3090"))}, {"gpu": "RTX 3090", "num_gpus": 2}, False),
        ({"min_vram_gb": D(24)}, {}, True),
        ({"min_vram_gb": D("24.1")}, {}, False),
        ({"disk_gb": D(500)}, {}, True),
        ({"disk_gb": D(501)}, {}, False),
        ({}, {"verified": False}, False),
        ({"trust": Trust.ANY}, {"verified": False}, True),
        ({"trust": Trust.SECURE}, {}, False),
        ({"trust": Trust.SECURE}, {"datacenter": True}, True),
        ({"trust": Trust.SECURE}, {"datacenter": True, "verified": False}, False),
    ],
)
def test_what_fits_the_job_file(spec_changes: dict[str, Any], offer_changes: dict[str, Any], fits: bool) -> None:
    spec, offer = a_spec(**spec_changes), an_offer(**offer_changes)
    assert (why_not(spec, offer) is None) == fits
    assert (eligible(a_job(spec=spec), a_market(offer), START, Params()) == (offer,)) == fits


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"cuda": D("12.8")}, "CUDA 12.2"),
        ({"driver": "550"}, "driver 535.86.05"),
        ({"arch": Arch.AMD64}, "arm64 processor"),
        ({"cpus": D(16)}, "7.5 CPUs"),
        ({"ram_gb": D(64)}, "31.98 GB of RAM"),
        ({"shm_gb": D(1)}, "0.064 GB of /dev/shm"),
        ({"disk_mb_per_s": D(500)}, "disk of 99 MB/s"),
        ({"reliability": D("0.999")}, "reliability 0.99"),
        ({"download_mbps": D(200)}, "120 Mbps down"),
        ({"upload_mbps": D(200)}, "20 Mbps up"),
        ({"countries": ("US",)}, "in DE"),
        ({"regions": ("asia",)}, "in eu-west9"),
        ({"datacenter": True}, "not a datacenter"),
        ({"regions": ("europe",), "cuda": D("12.0")}, None),
    ],
)
def test_a_machine_that_lacks_something_says_what_it_has(needs: dict[str, Any], told: str | None) -> None:
    host = HostFacts(
        cuda=D("12.2"), driver="535.86.05", arch=Arch.ARM64, cpus=D("7.5"), ram_gb=D("31.98"), shm_gb=D("0.064"),
        disk_mb_per_s=D("99.2"), upload_mbps=D(20), country="DE", region="eu-west9",
    )  # fmt: skip
    offer = an_offer(host=host, download_mbps=D(120), reliability=D("0.99"), datacenter=False)
    assert why_not(a_spec(host=HostNeeds(**needs)), offer) == told
    assert why_not(a_spec(host=HostNeeds(countries=("US",))), an_offer()) == "place unknown"
    blackwell = an_offer(gpu="RTX 5090", host=host)
    assert why_not(a_spec(gpus=(GpuChoice("RTX 5090"),)), blackwell) == "driver too old for its GPU: CUDA 12.2"


def test_a_certification_rents_on_its_own_market_and_jobs_only_with_a_certificate() -> None:
    market = a_market(an_offer())
    uncertified = replace(market, providers={"vastai": replace(market.providers["vastai"], lack=Lack.MISSING)})
    expected = {"": False, "vastai": True, "runpod": False}
    for certifies, fits in expected.items():
        job = replace(a_job(), certifies=certifies)
        assert bool(eligible(job, uncertified, START, Params())) == fits
    assert not eligible(replace(a_job(), certifies="runpod"), market, START, Params())
    assert eligible(a_job(), market, START, Params())


def test_a_machine_must_last_as_long_as_the_work_may_take() -> None:
    params = Params(
        deadline=Deadline(estimate_error=0.1), timing=Timing(boot_s=200), traffic=TrafficSizes(image_gb=Decimal(10))
    )
    job = a_job(spec=a_spec(work_estimate=10 * HOUR))
    needed = START + timedelta(hours=11, minutes=10)  # 11 h of work, 200 s of boot, 400 s for 10 GB at 200 Mbit/s
    lasting = an_offer(ends_at=needed, download_mbps=Decimal(200))
    short = an_offer(ends_at=needed - timedelta(seconds=1), download_mbps=Decimal(200))
    assert eligible(job, a_market(short, lasting), START, params) == (lasting,)


def test_machines_that_this_job_holds_or_avoids_are_left_out() -> None:
    job = a_job(a_lease(machine_id="held"))
    held, avoided, free = an_offer("held"), an_offer("avoided"), an_offer("free")
    market = a_market(held, avoided, free, avoid=frozenset({("vastai", "avoided")}))
    assert eligible(job, market, START, Params()) == (free,)


def test_of_a_pool_there_are_other_machines_and_other_capacity() -> None:
    pool = an_offer("RTX 4090/COMMUNITY", floor=D("0.300"), on_demand_price=D("0.600"))
    market, params = a_market(pool, is_pooled=True), Params()

    def to_be_had(*leases: Lease) -> list[CapacityType]:
        job = a_job(*leases)
        return [
            found.capacity_type for found in price_candidates(job, market, eligible(job, market, START, params), params)
        ]

    held = a_lease(machine_id=pool.machine_id)
    assert to_be_had(held) == [CapacityType.ON_DEMAND], "the way out when the deadline presses"
    assert to_be_had(replace(held, capacity_type=CapacityType.ON_DEMAND)) == [CapacityType.SPOT]
    both = [CapacityType.SPOT, CapacityType.ON_DEMAND]
    assert to_be_had(change_lease(held, state=LeaseState.DESTROY_REQUESTED, role=Role.LEAVE)) == both


def test_an_unknown_market_has_no_eligible_offers() -> None:
    offer = an_offer()
    assert eligible(a_job(), a_market(offer, known=False), START, Params()) == ()
    assert eligible(a_job(), a_market(replace(offer, provider="elsewhere")), START, Params()) == ()
