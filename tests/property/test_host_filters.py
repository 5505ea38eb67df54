"""vast.ai's filters and the policy's check agree on every machine: neither hides what the other would take."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from autopilot.domain.host import Arch, HostNeeds
from autopilot.domain.host_fit import host_lacks, list_unstated
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.domain.places import PARTS
from autopilot.providers import values
from autopilot.providers.vastai import mapping, wire
from autopilot.providers.vastai.config import VastaiSettings
from autopilot.providers.vastai.search import countries_of, search_body
from autopilot_lab.sandbox.vastai.query import matches

SETTINGS = VastaiSettings(api_key=SecretStr("k"), min_reliability=Decimal(0))
DRIVERS = ("470.42.01", "525.60.13", "535.86.05", "550.54.14", "580.95.05")
COUNTRIES = ("US", "DE", "CN", "GB")

ROW: dict[str, Any] = {
    "id": 1, "machine_id": 2, "host_id": 3, "gpu_name": "RTX 3090", "num_gpus": 1, "gpu_frac": 0.5, "gpu_ram": 24576,
    "min_bid": 0.2, "dph_base": 0.2, "storage_cost": 0.1, "inet_up_cost": 0.0, "inet_down_cost": 0.0,
    "disk_space": 500.0, "verification": "verified", "hosting_type": 0, "compute_cap": 860, "cpu_cores": 32,
}  # fmt: skip


def some(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((*choices, None))


rows = st.fixed_dictionaries(
    {
        "cuda_max_good": some(11.4, 12.0, 12.2, 12.4, 12.8, 13.0),
        "driver_version": st.sampled_from(DRIVERS),
        "cpu_arch": st.sampled_from(("amd64", "arm64")),
        "cpu_cores_effective": some(2, 8, 16.0, 32),
        "cpu_ram": some(16_000, 64_000, 128_000),
        "disk_bw": some(90.5, 500, 1500.0),
        "inet_down": some(50, 200.0, 900),
        "inet_up": some(50, 200.0, 900),
        "reliability": st.sampled_from((0.9, 0.98, 0.995)),
        "geolocation": st.sampled_from((*(f"Somewhere, {code}" for code in COUNTRIES), "")),
    }
)
needs = st.builds(
    HostNeeds,
    cuda=some(Decimal("12.0"), Decimal("12.4"), Decimal("13.0")),
    driver=st.sampled_from(("", "535", "535.86.05", "550.54.15")),
    arch=st.sampled_from((None, *Arch)),
    cpus=some(Decimal(8), Decimal(16)),
    ram_gb=some(Decimal(16), Decimal(32)),
    disk_mb_per_s=some(Decimal(500)),
    reliability=some(Decimal("0.98")),
    download_mbps=some(Decimal(200)),
    upload_mbps=some(Decimal("200.5")),
    countries=st.sampled_from(((), ("US",), ("DE", "GB"))),
    regions=st.sampled_from(((), ("europe",), ("asia", "north-america"), ("eu-north1",))),
)
SEEN_BY_POLICY_ALONE = {"ram_gb", "gpu_cuda"}
"""The share of the memory, and the driver that a GPU needs."""


def offer_of(row: dict[str, Any]) -> Offer:
    read = wire.offer_row(values.decode(json.dumps(row)))
    assert read is not None
    (offer,) = mapping.offers([read], [])
    return offer


def passes_filter(row: dict[str, Any], asked: HostNeeds) -> bool:
    query = OfferQuery((("RTX 3090", 1),), Decimal(0), Decimal(20), False, False, host=asked)
    if countries_of(asked) == frozenset():  # nothing is asked then
        return False
    body = search_body(query, "RTX 3090", 1, "on-demand", SETTINGS)
    first, second, third = (int(part) for part in row["driver_version"].split("."))
    shown = row | {
        "driver_version": first * 1_000_000 + second * 1_000 + third,
        "geolocation": row["geolocation"].rpartition(" ")[2],
    }
    of_host = set(row) & set(body)
    return all(matches(shown[name], body[name]) for name in of_host)


@given(traits=rows, asked=needs)
def test_the_filter_and_the_policy_agree(traits: dict[str, Any], asked: HostNeeds) -> None:
    row = ROW | traits
    offer = offer_of(row)
    lacks = {lack.key for lack in host_lacks(asked, offer)}
    is_shown = passes_filter(row, asked)
    if is_shown:
        assert lacks <= SEEN_BY_POLICY_ALONE
    if not lacks and not list_unstated(asked, offer) and row["cuda_max_good"] is not None:
        assert is_shown, "the market would hide what the policy takes"


def test_every_key_about_the_machine_has_its_filter() -> None:
    asked = HostNeeds(
        cuda=Decimal(12),
        driver="535",
        arch=Arch.AMD64,
        cpus=Decimal(8),
        ram_gb=Decimal(32),
        disk_mb_per_s=Decimal(500),
        download_mbps=Decimal(200),
        upload_mbps=Decimal(200),
        countries=("DE",),
        datacenter=True,
    )
    query = OfferQuery((("RTX 3090", 1),), Decimal(0), Decimal(20), False, True, host=asked)
    body = search_body(query, "RTX 3090", 1, "bid", SETTINGS)
    assert body["driver_version"] == {"gte": 535_000_000}
    assert body["cpu_ram"] == {"gte": 32_000}
    assert body["geolocation"] == {"in": ["DE"]}
    assert {"cuda_max_good", "cpu_arch", "cpu_cores_effective", "disk_bw", "inet_down", "inet_up"} <= set(body)
    assert body["datacenter"] == {"eq": True}
    anywhere = search_body(OfferQuery((), Decimal(0), Decimal(20), False, False, host=HostNeeds(regions=("eu",))),
                           "RTX 3090", 1, "bid", SETTINGS)  # fmt: skip
    assert anywhere["geolocation"] == {"in": sorted(PARTS["eu"])}
