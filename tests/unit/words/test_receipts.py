"""A receipt in one line."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.answers.money import Receipt
from autopilot.domain.cost_columns import NO_COSTS
from autopilot.words import receipts

RECEIPT = Receipt(
    posted=Decimal("0.4184"),
    **replace(NO_COSTS, compute=Decimal("0.4184")).by_column,
    bill="complete",
    on_demand=Decimal("0.76"),
    saved=Decimal("0.3416"),
    is_shared=False,
    interruptions=3,
    work_lost_s=80.0,
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {},
            "cost $0.42 (confirmed by the market's bill); on demand the same hours cost $0.76, 45% saved; "
            "interrupted 3 times, 1 min 20 s of work repeated",
        ),
        (
            {"bill": "awaited", "on_demand": None, "saved": None, "interruptions": 0, "work_lost_s": 0.0},
            "cost $0.42 (the market's bill is still to come); never interrupted",
        ),
        (
            {"saved": Decimal("-0.038"), "interruptions": 1, "work_lost_s": 0.0},
            "cost $0.42 (confirmed by the market's bill); on demand the same hours cost $0.76, 5% less than it cost; "
            "interrupted once",
        ),
        (
            {"posted": Decimal(0), "bill": "none", "on_demand": None, "saved": None, "interruptions": None},
            "cost $0.00 (no machine cost anything)",
        ),
        (
            {"is_shared": True, "on_demand": None, "interruptions": None},
            "cost $0.42 (its share of machines that other tasks used too, confirmed by the market's bill)",
        ),
    ],
)
def test_one_line(changes: dict[str, Any], told: str) -> None:
    assert receipts.tell(replace(RECEIPT, **changes)) == told
