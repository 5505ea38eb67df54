"""What clouds ask for GPUs on their price lists, to compare spend with: ``list_prices.csv``, dated line by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files

from autopilot.markets.installed import every_market

HYPERSCALERS = frozenset({"AWS", "GCP", "hyperscalers"})

_NOISE = re.compile(r"\b(NVIDIA|GEFORCE|(24|48|80)\s?GB)\b")
_ON_DEMAND = re.compile(r"\b(On-Demand|OD)\b")
_CHEAPER_FORM = {"H100": "H100 PCIE", "A100": "A100 PCIE"}
"""Where a market names no form factor, the cheaper one counts: a saving is rather told too small."""


@dataclass(frozen=True, slots=True)
class ListPrice:
    gpu: str
    provider: str
    terms: str
    low: Decimal
    """$ per GPU and hour, as ``high``."""
    high: Decimal
    approximate: bool
    as_of: str
    """A date or a month."""

    @property
    def source(self) -> str:
        about = "about " if self.approximate else ""
        return f"{self.gpu}: {self.provider} {self.terms}, {about}${self.low}/h per GPU ({self.as_of})"


@cache
def list_prices() -> tuple[ListPrice, ...]:
    text = (files("autopilot.planning") / "list_prices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        ListPrice(
            row["gpu"],
            row["provider"],
            row["terms"],
            Decimal(row["low"]),
            Decimal(row["high"]),
            row["approximate"] == "yes",
            row["as_of"],
        )
        for row in rows
    )


def hyperscaler_price(gpu: str) -> ListPrice | None:
    """The lowest on-demand price of AWS, GCP and their like, as of the newest date that there is for this GPU."""
    return _newest_and_lowest(price for price in _on_demand(gpu) if price.provider in HYPERSCALERS)


def cloud_price(gpu: str) -> ListPrice | None:
    """The lowest on-demand price of any cloud that is not one of our markets, as of the newest date.

    Their own list prices are no yardstick: what was paid there is what is compared.
    """
    ours = {facts.display_name.casefold() for facts in every_market().values()}
    return _newest_and_lowest(price for price in _on_demand(gpu) if price.provider.casefold() not in ours)


def _on_demand(gpu: str) -> Iterable[ListPrice]:
    name = _known_as(gpu)
    return (price for price in list_prices() if price.gpu == name and _ON_DEMAND.search(price.terms))


def _newest_and_lowest(prices: Iterable[ListPrice]) -> ListPrice | None:
    found = sorted(prices, key=lambda price: price.low)
    newest = max((price.as_of for price in found), default="")
    return next((price for price in found if price.as_of == newest), None)


def _known_as(gpu: str) -> str:
    """The list's name for what a market calls "A100 SXM4" or "NVIDIA H100 80GB PCIe"."""
    name = " ".join(_NOISE.sub(" ", gpu.upper()).split())
    name = re.sub(r"\bSXM\d\b", "SXM", name)
    return _CHEAPER_FORM.get(name, name)
