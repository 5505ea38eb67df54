"""What every store tells reconciliation."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.instance import CostKind
from autopilot.domain.lease import LeaseState
from autopilot.domain.ledger import InvoiceLine, LeaseBooks
from autopilot.ports.store import ConstraintViolated, Store
from tests.leases import change_lease
from tests.store_records import START, a_job, a_lease, an_entry

NOV_1, NOV_2, DEC_1 = date(2026, 11, 1), date(2026, 11, 2), date(2026, 12, 1)
COMPUTE, STOPPED = CostKind.COMPUTE, CostKind.STORAGE_STOPPED
LEASE = a_lease(instance_id="77", state=LeaseState.GONE, gone_at=START)


def a_line(amount: str, revision: int = 1, day: date = NOV_1, lease_id: str = "lease-1") -> InvoiceLine:
    name = f"vastai:77:compute:{day}:r{revision}"
    return InvoiceLine(name, "vastai", "77", lease_id, COMPUTE, day, Decimal(amount), revision, START)


class WhatReconciliationReads:
    @pytest.fixture
    async def booked(self, store: Store) -> Store:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(LEASE,)))
            await work.ledger.post(
                [
                    an_entry("r1", "0.50", day=NOV_1, lease=LEASE, type="reserve"),
                    an_entry("r2", "-0.20", day=NOV_1, lease=LEASE, type="void", corrects="r1"),
                    an_entry("a1", "1", day=NOV_1, lease=LEASE),
                    an_entry("a2", "0.000000001", day=NOV_1, lease=LEASE),
                    an_entry("a3", "0.25", day=NOV_2, lease=LEASE, kind=STOPPED),
                    an_entry("s1", "-0.1", day=NOV_1, lease=LEASE, type="adjust", corrects="a2", line_id="x"),
                    an_entry("a4", "3", day=DEC_1, lease=LEASE),
                ]
            )
        return store

    async def test_books_are_accruals_by_kind_and_day_and_open_reserves(self, booked: Store) -> None:
        async with booked.snapshot() as work:
            books = await work.ledger.sum_books(["lease-1", "unknown"])
            assert await work.ledger.sum_books([]) == {}
        accrued = {
            (COMPUTE, NOV_1): Decimal("1.000000001"),
            (STOPPED, NOV_2): Decimal("0.25"),
            (COMPUTE, DEC_1): Decimal(3),
        }
        assert books["lease-1"] == LeaseBooks(accrued, Decimal("0.30"), 2)
        assert books["unknown"] == LeaseBooks()

    async def test_lines_are_kept_once_in_every_revision(self, booked: Store) -> None:
        lines = (a_line("0.9"), a_line("0.8", 2), a_line("0.1", day=NOV_2))
        async with booked.transaction() as work:
            await work.invoices.add([lines[1], lines[0]])
            await work.invoices.add([lines[2], replace(lines[0], amount=Decimal(9))])
        async with booked.snapshot() as work:
            assert await work.invoices.list_by_lease(["lease-1", "unknown"]) == lines
            assert await work.invoices.list_by_lease([]) == ()

    async def test_a_line_of_an_unknown_lease_is_refused(self, booked: Store) -> None:
        with pytest.raises(ConstraintViolated):
            async with booked.transaction() as work:
                await work.invoices.add([a_line("1", lease_id="unknown")])

    async def test_a_month_is_reconciled_with_the_newest_lines(self, booked: Store) -> None:
        async with booked.transaction() as work:
            await work.invoices.add([a_line("0.8"), a_line("0.9", 2), a_line("3", day=DEC_1)])
        async with booked.snapshot() as work:
            (november,) = await work.reports.reconcile("2026-11")
            (december,) = await work.reports.reconcile("2026-12")
            assert await work.reports.reconcile("2026-10") == ()
            with pytest.raises(UserError, match="not a month"):
                await work.reports.reconcile("2026-13")
        assert (november.provider, november.instance_id, november.job_id) == ("vastai", "77", "job-000001")
        assert (november.estimate, november.posted) == (Decimal("1.250000001"), Decimal("1.150000001"))
        assert (november.invoiced, november.drift) == (Decimal("0.9"), Decimal("-0.100000001"))
        assert (december.posted, december.invoiced, december.drift) == (Decimal(3), Decimal(3), Decimal(0))

    async def test_an_instance_without_a_bill_is_there_without_one(self, booked: Store) -> None:
        async with booked.snapshot() as work:
            (row,) = await work.reports.reconcile("2026-12")
        assert (row.posted, row.invoiced, row.drift) == (Decimal(3), None, None)

    async def test_leases_to_reconcile_had_an_instance_and_live_or_ended_lately(self, store: Store) -> None:
        leases = (
            a_lease("lives", instance_id="1"),
            a_lease("leaves", None, instance_id="2", state=LeaseState.DESTROY_SENT),
            change_lease(LEASE, id="lately", label="a", gone_at=START),
            change_lease(LEASE, id="long-ago", label="b", gone_at=START - timedelta(microseconds=1)),
            a_lease("never", None, state=LeaseState.ABANDONED),
        )
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=tuple(lease for lease in leases if lease.job_id)))
            for lease in leases:
                await work.leases.save(lease)
        async with store.snapshot() as work:
            found = await work.leases.list_to_reconcile(START)
        assert {lease.id for lease in found} == {"lives", "leaves", "lately"}
        assert list(found) == sorted(found, key=lambda lease: (lease.intended_at, lease.id))

    async def test_unresolved_leases_were_given_up_in_doubt_and_lately(self, store: Store) -> None:
        given_up = {"job_id": None, "state": LeaseState.ABANDONED}
        leases = (
            a_lease("doubtful", create_unknown=True, intended_at=START, **given_up),
            a_lease("refused", create_unknown=False, intended_at=START, **given_up),
            a_lease("found", create_unknown=True, instance_id="4", intended_at=START, **given_up),
            a_lease("old", create_unknown=True, intended_at=START - timedelta(microseconds=1), **given_up),
            a_lease("open", None, create_unknown=True, intended_at=START),
        )
        async with store.transaction() as work:
            for lease in leases:
                await work.leases.save(lease)
        async with store.snapshot() as work:
            assert [lease.id for lease in await work.leases.list_unresolved(START)] == ["doubtful"]
