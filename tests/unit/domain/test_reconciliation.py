"""Our own figures beside the market's, and by how much they differ."""

from __future__ import annotations

import pytest

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import EntryType, InvoiceLine
from autopilot.domain.reconciliation import ReconciliationRow, compare_books, drift_of
from tests.builders import D
from tests.store_records import DAY, START

COMPUTE, DISK, STOPPED, TRAFFIC = (
    *(CostKind.COMPUTE, CostKind.STORAGE_RUNNING, CostKind.STORAGE_STOPPED, CostKind.BANDWIDTH),
)


def row(accrued: dict[CostKind, str], billed: dict[CostKind, str]) -> ReconciliationRow:
    """Of one instance: what our clock says beside what the market's bill does."""
    sums = [("lease-1", EntryType.ACCRUE, kind, DAY, D(amount)) for kind, amount in accrued.items()]
    lines = [
        InvoiceLine(f"{kind}:r1", "vastai", "7", "lease-1", kind, DAY, D(amount), 1, START)
        for kind, amount in billed.items()
    ]
    (found,) = compare_books([("lease-1", "vastai", "7", "job-000001", "RTX 4090")], sums, lines)
    return found


def test_less_traffic_than_was_allowed_for_is_no_drift() -> None:
    found = row({COMPUTE: "0.36", TRAFFIC: "0.20"}, {COMPUTE: "0.36", TRAFFIC: "0.02"})
    assert (found.estimate, found.invoiced, found.drift) == (D("0.56"), D("0.38"), D(0))


def test_nor_does_it_hide_what_another_line_is_off() -> None:
    assert row({COMPUTE: "0.36", TRAFFIC: "0.20"}, {COMPUTE: "0.46", TRAFFIC: "0.02"}).drift == D("0.10")


def test_more_traffic_is_drift_and_so_is_less_of_anything_else() -> None:
    assert row({TRAFFIC: "0.20"}, {TRAFFIC: "0.22"}).drift == D("0.02")
    assert row({COMPUTE: "0.36"}, {COMPUTE: "0.30"}).drift == D("-0.06")
    assert row({DISK: "0.02", STOPPED: "0.03"}, {DISK: "0.045"}).drift == D("-0.005")


@pytest.mark.parametrize("kind", list(CostKind))
def test_only_less_traffic_is_forgiven(kind: CostKind) -> None:
    assert drift_of(kind, D(1)) == 1
    assert drift_of(kind, D(-1)) == (0 if kind is TRAFFIC else -1)


def test_without_a_bill_nothing_is_said_of_drift() -> None:
    found = row({COMPUTE: "0.36", TRAFFIC: "0.20"}, {})
    assert (found.invoiced, found.drift) == (None, None)
