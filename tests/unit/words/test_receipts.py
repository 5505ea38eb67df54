"""A receipt in one line."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.words import receipts

RECEIPT = {
    "posted": "0.4184",
    "bill": "complete",
    "on_demand": "0.76",
    "saved": "0.3416",
    "is_shared": False,
    "interruptions": 3,
    "work_lost_s": 80.0,
}


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
            {"saved": "-0.038", "interruptions": 1, "work_lost_s": 0.0},
            "cost $0.42 (confirmed by the market's bill); on demand the same hours cost $0.76, 5% less than it cost; "
            "interrupted once",
        ),
        (
            {"posted": "0", "bill": "none", "on_demand": None, "saved": None, "interruptions": None},
            "cost $0.00 (no machine cost anything)",
        ),
        (
            {"is_shared": True, "on_demand": None, "interruptions": None},
            "cost $0.42 (its share of machines that other tasks used too, confirmed by the market's bill)",
        ),
    ],
)
def test_one_line(changes: dict[str, Any], told: str) -> None:
    assert receipts.tell(RECEIPT | changes) == told
