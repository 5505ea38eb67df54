"""Records for the store's tests: plain ones with sensible values, and Hypothesis strategies from the field types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from autopilot.domain.instance import CostKind
from autopilot.domain.job import Checkpoint, GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import Number, from_nano
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.ports.store import Store, UnitOfWork
from tests.leases import new_lease

START = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
DAY = START.date()


class Forget(Exception):
    """Raised at the end of an example, so that the next one starts from an empty ledger."""


@asynccontextmanager
async def forgotten(store: Store) -> AsyncIterator[UnitOfWork]:
    try:
        async with store.transaction() as work:
            yield work
            raise Forget
    except Forget:
        pass


def a_job(id: str = "job-000001", *, name: str = "train", **changes: Any) -> Job:
    spec = JobSpec(name=name, image="python:3.12", run="python train.py", gpus=(GpuChoice("RTX 4090"),))
    values: dict[str, Any] = {"status": JobStatus.PENDING, "reason": Reason.SUBMITTED, "submitted_at": START}
    return Job(id=id, spec=spec, **(values | changes))


def a_lease(id: str = "lease-1", job_id: str | None = "job-000001", **changes: Any) -> Lease:
    values: dict[str, Any] = {
        "slot": Slot.MAIN,
        "state": LeaseState.ACTIVE,
        "provider": "vastai",
        "label": f"ap1.install.{id}",
        "capacity_type": CapacityType.SPOT,
        "offer_id": "o1",
        "machine_id": "m1",
        "host_id": "h1",
        "gpu": "RTX 4090",
        "num_gpus": 1,
        "disk_gb": Decimal(20),
        "bid": Decimal("0.31"),
        "storage_rate": Decimal("0.002"),
        "on_demand_price": None,
        "reserved": Decimal("1.5"),
        "intended_at": START,
        "not_after": START + timedelta(days=2),
        "reason": Reason.CHEAPEST,
    }
    return new_lease(id=id, job_id=job_id, **(values | changes))


def an_entry(
    id: str, amount: str | Decimal, *, day: date = DAY, lease: Lease | None = None, **changes: Any
) -> LedgerEntry:
    lease = lease or a_lease()
    values: dict[str, Any] = {
        "type": EntryType.ACCRUE,
        "kind": CostKind.COMPUTE,
        "lease_id": lease.id,
        "job_id": lease.job_id,
        "provider": lease.provider,
        "posted_at": START,
    }
    return LedgerEntry(id=id, day=day, amount=Decimal(amount), **(values | changes))


def a_checkpoint(number: int = 0, *, lease_id: str = "lease-1", run_epoch: int = 1, **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "job_id": "job-000001",
        "step": 100 * number,
        "work_done": timedelta(minutes=number),
        "size_bytes": 5_000_000_000,
        "part_count": 2,
        "verified_at": START,
    }
    return Checkpoint(lease_id=lease_id, number=number, run_epoch=run_epoch, **(values | changes))


integers = st.integers(-(2**63), 2**63 - 1)
money = integers.map(from_nano)
floats = st.floats(allow_nan=False)  # a NaN does not equal itself
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))  # PostgreSQL keeps no NUL
numbers: st.SearchStrategy[Number] = st.one_of(st.decimals(allow_nan=False), integers, floats, texts, st.none())
_plain: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: integers,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    date: st.dates(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    timedelta: st.timedeltas(timedelta(0), timedelta(days=10_000)),
    Decimal: money,
    Number: numbers,
}


def records(kind: type, **given: Any) -> st.SearchStrategy[Any]:
    """Any value of the dataclass, its fields by their types but for those ``given`` (a strategy, or the value)."""
    hints = get_type_hints(kind)
    values = {field.name: _of(hints[field.name]) for field in fields(kind) if field.name not in given}
    fixed = {name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in given.items()}
    return st.builds(kind, **values, **fixed)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _plain:
        return _plain[hint]
    if get_origin(hint) is UnionType:
        return st.one_of([st.none() if choice is NoneType else _of(choice) for choice in get_args(hint)])
    if get_origin(hint) is tuple:
        first, *rest = get_args(hint)
        if rest == [...]:
            return st.lists(_of(first), max_size=3).map(tuple)
        return st.tuples(_of(first), *(_of(part) for part in rest))
    return st.sampled_from(hint) if issubclass(hint, StrEnum) else records(hint)
