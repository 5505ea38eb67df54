"""A create took effect, its answer was lost, and the machine was over before anybody looked: only the bill tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import cast

import pytest

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import LeaseState
from autopilot.engine.chores import Chores
from autopilot.ports.clock import ManualClock
from autopilot.ports.provider import Provider
from autopilot.store.memory.store import MemoryStore
from tests.builders import D
from tests.store_records import START, a_lease

LABEL = "ap1.install.lost"


class Bills:
    """A market that shows its bill and nothing else."""

    def __init__(self, *charges: Charge) -> None:
        self._charges = charges

    async def charges(self, since: date, until: date) -> Sequence[Charge]:
        return self._charges


async def state_after_a_night(label: str) -> tuple[LeaseState, str | None]:
    store, clock = MemoryStore(), ManualClock(START)
    given_up = a_lease(
        "lost", None, label=LABEL, state=LeaseState.ABANDONED, create_unknown=True, instance_id=None, intended_at=START
    )
    async with store.transaction() as uow:
        await uow.save_lease(given_up)
    clock.advance(timedelta(days=1, hours=2).total_seconds())
    charge = Charge("77", START.date(), CostKind.COMPUTE, D("0.05"), label)
    bills = cast(Provider, Bills(charge))
    await Chores({"vastai": bills}, store, clock, timedelta(minutes=10)).reconcile()
    async with store.snapshot() as uow:
        lease = await uow.lease("lost")
    assert lease is not None
    return lease.state, lease.instance_id


async def test_the_bill_brings_it_into_the_ledger() -> None:
    assert await state_after_a_night(LABEL) == (LeaseState.DESTROY_REQUESTED, "77")


@pytest.mark.parametrize("label", ["", "my-own", "ap1.install.other"])
async def test_what_bears_another_label_is_left_alone(label: str) -> None:
    assert await state_after_a_night(label) == (LeaseState.ABANDONED, None)
