"""List prices: which one a GPU's spend is compared with, and that each has a date."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from autopilot.planning.list_prices import cloud_price, hyperscaler_price, list_prices


def test_every_price_is_dated_and_makes_sense() -> None:
    for price in list_prices():
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", price.as_of), price
        assert Decimal("0.1") < price.low <= price.high < Decimal(100), price


@pytest.mark.parametrize(
    ("gpu", "hyperscaler", "cloud"),
    [
        ("H100 SXM", "hyperscalers 2.49 2026-05", "specialised clouds 1.79 2026-05"),
        ("NVIDIA H100 80GB PCIe", "GCP 3.67 2025-04-28", "CUDO Compute 2.45 2025-04-28"),
        ("H100", "GCP 3.67 2025-04-28", "CUDO Compute 2.45 2025-04-28"),
        ("A100 SXM4 80GB", "AWS 3.44 2025-04-28", "Lambda Labs 1.79 2025-04-28"),
        ("A100 PCIE", "AWS 3.06 2025-04-28", "ThunderCompute 0.78 2025-04-28"),
        ("RTX 4090", None, "TensorDock 0.37 2025-04-28"),
        ("NVIDIA GeForce RTX 4090", None, "TensorDock 0.37 2025-04-28"),
        ("RTX A6000", None, "CUDO Compute 0.45 2025-04-28"),
        ("L40S", None, "CUDO Compute 0.88 2025-04-28"),
        ("A100 SXM4 40GB", None, None),
        ("RTX 4090 D", None, None),
        ("RTX 3090", None, None),
    ],
)
def test_the_newest_and_lowest_on_demand_price_counts(gpu: str, hyperscaler: str | None, cloud: str | None) -> None:
    found = [
        price and f"{price.provider} {price.low} {price.as_of}" for price in (hyperscaler_price(gpu), cloud_price(gpu))
    ]
    assert found == [hyperscaler, cloud]
