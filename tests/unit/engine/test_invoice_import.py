"""A look at a bill in the ledger: the lease is settled once it is believed, and until then something is held back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import BillWait, Lease, LeaseState
from autopilot.domain.ledger import EntryType
from autopilot.domain.params import Params
from autopilot.engine.accrue import hold_reserves
from autopilot.engine.invoices import import_invoice, write_off
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import HOUR, D
from tests.leases import change_lease
from tests.store_records import DAY, START, a_lease, an_entry

END = START + HOUR


def over() -> Lease:
    return a_lease("lease-1", None, state=LeaseState.GONE, instance_id="77", intended_at=START, gone_at=END)


async def a_ledger(lease: Lease, accrued: str) -> MemoryStore:
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.leases.save(lease)
        await uow.ledger.post([an_entry("a0", accrued, lease=lease)])
    return store


async def look(store: MemoryStore, amount: str, after: timedelta, asked: Lease | None = None) -> Lease:
    charge = Charge("77", DAY, CostKind.COMPUTE, D(amount))
    async with store.transaction() as uow:
        await import_invoice(uow, asked or over(), [charge], END + after)
    async with store.snapshot() as uow:
        lease = await uow.leases.get("lease-1")
    assert lease is not None
    return lease


async def books(store: MemoryStore) -> tuple[Decimal, Decimal, list[str]]:
    """What is spent, what is held back, and the events."""
    async with store.snapshot() as uow:
        found = (await uow.ledger.sum_books(["lease-1"]))["lease-1"]
        entries = await uow.ledger.list_entries("lease-1")
    spent = sum((each.amount for each in entries if each.type not in (EntryType.RESERVE, EntryType.VOID)), D(0))
    return spent, found.reserved, sorted(each.type.value for each in entries)


async def test_a_lease_is_settled_by_the_second_look_and_something_is_held_back_until_then() -> None:
    store = await a_ledger(over(), "0.36")
    lease = await look(store, "0.352", HOUR)
    assert (lease.billing.settled_at, lease.billing.waits_for) == (None, BillWait.SECOND_LOOK)
    assert lease.billing.reconciled_at == END + HOUR
    assert await books(store) == (D("0.352"), D("0.008"), ["accrue", "reserve", "settle"])
    lease = await look(store, "0.352", 2 * HOUR)
    assert (lease.billing.settled_at, lease.billing.waits_for) == (END + 2 * HOUR, None)
    assert await books(store) == (D("0.352"), D(0), ["accrue", "reserve", "settle", "void"])


async def test_a_correction_later_leaves_the_lease_settled() -> None:
    store = await a_ledger(over(), "0.36")
    await look(store, "0.36", HOUR)
    settled = await look(store, "0.36", 2 * HOUR)
    lease = await look(store, "0.50", 24 * HOUR)
    assert lease.billing.settled_at == settled.billing.settled_at == END + 2 * HOUR
    assert lease.billing.reconciled_at == END + 24 * HOUR
    assert (await books(store))[:2] == (D("0.50"), D(0))


async def test_what_was_asked_for_a_lease_that_came_back_to_life_is_dropped() -> None:
    store = await a_ledger(over(), "0.36")
    living = replace(over(), ending=replace(over().ending, gone_at=None))
    assert (await look(store, "0.50", HOUR, asked=living)).billing.reconciled_at is None
    assert (await books(store))[0] == D("0.36")


@pytest.mark.parametrize(("unobserved", "days"), [("0.004", 1), ("0.3", 3)])
async def test_what_is_held_for_a_create_that_no_bill_names_is_given_back(unobserved: str, days: int) -> None:
    lease = a_lease("lease-1", None, state=LeaseState.ABANDONED, create_unknown=True, intended_at=START)
    lease = change_lease(lease, unobserved=D(unobserved), absent_at=END)
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.leases.save(lease)
        await hold_reserves(uow, [lease], Params(), END)
    for after, held in ((days * 24 * HOUR - HOUR, D(unobserved)), (days * 24 * HOUR, D(0)), (days * 25 * HOUR, D(0))):
        async with store.transaction() as uow:
            await write_off(uow, lease, END + after)
        assert (await books(store))[1] == held
        async with store.snapshot() as uow:
            assert sum((await uow.ledger.sum_held()).values(), D(0)) == held
    async with store.snapshot() as uow:
        assert [each.name for each in await uow.events.list_after()] == ["lease.written_off"]


async def test_where_nothing_is_held_for_a_create_nothing_is_given_back() -> None:
    lease = a_lease("lease-1", None, state=LeaseState.ABANDONED, create_unknown=True, intended_at=START)
    lease = change_lease(lease, unobserved=D("0.004"), absent_at=END)
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.leases.save(lease)
        await write_off(uow, lease, END + 24 * HOUR)
        written = await uow.leases.get("lease-1")
        assert written is not None
        assert written.billing.settled_at == END + 24 * HOUR
        assert await uow.ledger.list_entries("lease-1") == ()


async def test_the_highest_possible_bill_of_an_unobserved_create_is_reserved() -> None:
    lease = change_lease(over(), unobserved=D("0.5"))
    store = await a_ledger(lease, "0.001")
    assert (await look(store, "0.2", HOUR, lease)).billing.settled_at is None
    assert (await books(store))[:2] == (D("0.2"), D("0.3"))
    assert (await look(store, "0.2", 2 * HOUR, lease)).billing.settled_at is not None
    assert (await books(store))[:2] == (D("0.2"), D(0))
