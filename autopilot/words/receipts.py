"""The receipt of a job in words."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from autopilot.words import text

BILLS = {
    "complete": "confirmed by the market's bill",
    "awaited": "the market's bill is still to come",
    "unconfirmed": "not confirmed by a bill",
    "none": "no machine cost anything",
}


class Told(Protocol):
    """What is shown of a receipt."""

    @property
    def posted(self) -> Decimal: ...
    @property
    def bill(self) -> str: ...
    @property
    def on_demand(self) -> Decimal | None: ...
    @property
    def saved(self) -> Decimal | None: ...
    @property
    def is_shared(self) -> bool: ...
    @property
    def interruptions(self) -> int | None: ...
    @property
    def work_lost_s(self) -> float | None: ...


def tell(receipt: Told) -> str:
    """``cost $0.42 (confirmed by the market's bill); on demand the same hours cost $0.76, 45% saved; interrupted twice,
    1 min 20 s of work repeated``."""
    return "; ".join([_tell_cost(receipt), *_tell_saving(receipt), *_tell_interruptions(receipt)])


def _tell_cost(receipt: Told) -> str:
    share = "its share of machines that other tasks used too, " if receipt.is_shared else ""
    return f"cost {text.money(receipt.posted)} ({share}{BILLS.get(receipt.bill, text.words(receipt.bill))})"


def _tell_saving(receipt: Told) -> list[str]:
    """Nothing if no price on demand is known."""
    on_demand, saved = receipt.on_demand, receipt.saved
    if not on_demand or saved is None:
        return []
    share = saved / on_demand
    told = f"{text.percent(share)} saved" if share >= 0 else f"{text.percent(-share)} less than it cost"
    return [f"on demand the same hours cost {text.money(on_demand)}, {told}"]


def _tell_interruptions(receipt: Told) -> list[str]:
    count, lost = receipt.interruptions, receipt.work_lost_s
    if count is None:
        return []
    times = {0: "never interrupted", 1: "interrupted once", 2: "interrupted twice"}
    return [times.get(count, f"interrupted {count} times") + (f", {text.span(lost)} of work repeated" if lost else "")]
