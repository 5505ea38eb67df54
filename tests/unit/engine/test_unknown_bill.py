"""Machines that were over before anybody looked, of which only the bill tells: of a lost create, or a doubled one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import cast

import pytest

from autopilot.clock import ManualClock
from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot.engine.maintenance import Maintenance
from autopilot.ids import UlidIds
from autopilot.ports.provider import Provider
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import D, capabilities
from tests.store_records import START, a_lease

LABEL = "ap1.install.lost"


class Bills:
    """A market that shows its bill and nothing else."""

    capabilities = capabilities()

    def __init__(self, *charges: Charge) -> None:
        self._charges = charges

    async def charges(self, since: date, until: date) -> Sequence[Charge]:
        return self._charges


async def after_a_night(lease: Lease, *charges: Charge) -> list[Lease]:
    """What the ledger knows once the bill was read, that lease first."""
    store, clock = MemoryStore(), ManualClock(START)
    # One that is over, so that the bill is asked for in any case.
    another = a_lease("old", None, state=LeaseState.GONE, instance_id="76", intended_at=START, gone_at=START)
    async with store.transaction() as uow:
        await uow.leases.save(another)
        await uow.leases.save(lease)
    clock.advance(timedelta(days=1, hours=2).total_seconds())
    bills = cast(Provider, Bills(*charges))
    maintenance = Maintenance({"vastai": bills}, store, clock, timedelta(minutes=10), "install", UlidIds(clock))
    await maintenance.reconcile()
    await maintenance.reconcile()
    async with store.snapshot() as uow:
        known = await uow.leases.list_by_label({lease.label})
    return sorted(known, key=lambda each: each.id != lease.id)


def billed(instance_id: str, label: str) -> Charge:
    return Charge(instance_id, START.date(), CostKind.COMPUTE, D("0.05"), label)


def given_up() -> Lease:
    return a_lease(
        "lost", None, label=LABEL, state=LeaseState.ABANDONED, create_unknown=True, instance_id=None, intended_at=START
    )


async def test_the_bill_brings_it_into_the_ledger() -> None:
    (lease,) = await after_a_night(given_up(), billed("77", LABEL))
    assert (lease.state, lease.instance_id) == (LeaseState.DESTROY_REQUESTED, "77")


@pytest.mark.parametrize("label", ["", "my-own", "ap1.install.other"])
async def test_what_bears_another_label_is_left_alone(label: str) -> None:
    (lease,) = await after_a_night(given_up(), billed("77", label))
    assert (lease.state, lease.instance_id) == (LeaseState.ABANDONED, None)


async def test_the_second_of_a_doubled_create_gets_a_lease_of_its_own() -> None:
    held = a_lease("held", None, label=LABEL, state=LeaseState.GONE, instance_id="77", intended_at=START, gone_at=START)
    first, second = await after_a_night(held, billed("77", LABEL), billed("78", LABEL))
    assert (first.state, first.instance_id) == (LeaseState.GONE, "77")
    assert (second.state, second.instance_id, second.job_id) == (LeaseState.DESTROY_REQUESTED, "78", None)
    assert second.reason is Reason.DUPLICATE
    assert second.intended_at == START, "its bill is looked for from then on"


async def test_what_a_create_of_which_nothing_is_known_yet_may_have_brought_is_left_to_the_lists() -> None:
    intent = a_lease("new", None, label=LABEL, state=LeaseState.INTENT, instance_id=None, intended_at=START)
    (lease,) = await after_a_night(intent, billed("77", LABEL))
    assert (lease.state, lease.instance_id) == (LeaseState.INTENT, None)


async def test_a_market_without_bills_is_not_asked_and_its_machines_settle_by_our_own_clock() -> None:
    class NoBills(Bills):
        capabilities = capabilities(has_bills=False)

        async def charges(self, since: date, until: date) -> Sequence[Charge]:
            raise AssertionError("there is no bill to ask for")

    store, clock = MemoryStore(), ManualClock(START)
    gone = a_lease("gone", None, state=LeaseState.GONE, instance_id="76", intended_at=START, gone_at=START)
    here = a_lease("here", None, state=LeaseState.ACTIVE, instance_id="77", intended_at=START)
    async with store.transaction() as uow:
        for lease in (gone, here):
            await uow.leases.save(lease)
    clock.advance(timedelta(days=1, hours=2).total_seconds())
    bills = cast(Provider, NoBills())
    maintenance = Maintenance({"vastai": bills}, store, clock, timedelta(minutes=10), "install", UlidIds(clock))
    await maintenance.reconcile()
    async with store.snapshot() as uow:
        (there, over) = [await uow.leases.get(name) for name in ("here", "gone")]
    assert over is not None
    assert over.billing.settled_at == clock.now()
    assert there is not None
    assert there.billing.settled_at is None
