"""Whatever a record holds comes back equal, from within the transaction that wrote it and from a later snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_records import START, a_checkpoint, a_job, a_lease, an_entry, forgotten, money, records

from autopilot.domain.actions import Note
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.lease import OVER, Lease, LeaseState, Slot
from autopilot.domain.ledger import LedgerEntry
from autopilot.ports.provider import PriceObservation
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store.database import SqlStore

many = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
live_states = st.sampled_from(sorted(set(LeaseState) - OVER))


@st.composite
def whole_jobs(draw: st.DrawFn) -> Job:
    id = draw(st.text(min_size=1))
    leases = [
        draw(records(Lease, id=f"{slot}-{id}", job_id=id, slot=slot, state=live_states))
        for slot in draw(st.lists(st.sampled_from(Slot), unique=True))
    ]
    ordered = tuple(sorted(leases, key=lambda lease: (lease.intended_at, lease.id)))
    checkpoint = draw(st.none() | records(Checkpoint, job_id=id, lease_id=ordered[0].id)) if ordered else None
    return draw(records(Job, id=id, leases=ordered, checkpoint=checkpoint, spent=money if ordered else Decimal(0)))


@many
@given(job=whole_jobs())
async def test_a_job_with_all_that_belongs_to_it(store: SqlStore, job: Job) -> None:
    async with forgotten(store) as work:
        await work.save(job)
        if job.leases:
            await work.post([an_entry("spent", job.spent, lease=job.leases[0])])
        if job.checkpoint:
            await work.add_checkpoint(job.checkpoint)
        assert await work.job(job.id) == job


@many
@given(before=records(Lease, id="lease-1", job_id=None), after=records(Lease, id="lease-1", job_id=None))
async def test_a_lease_saved_again_holds_the_newer_values(store: SqlStore, before: Lease, after: Lease) -> None:
    after = replace(after, spans=before.spans + after.spans)
    async with forgotten(store) as work:
        await work.save_lease(before)
        await work.save_lease(after)
        assert await work.lease("lease-1") == after


@many
@given(
    entries=st.lists(
        records(LedgerEntry, lease_id="lease-1", job_id=None, corrects=None), unique_by=lambda entry: entry.id
    )
)
async def test_ledger_entries(store: SqlStore, entries: list[LedgerEntry]) -> None:
    async with forgotten(store) as work:
        await work.save_lease(a_lease(job_id=None))
        assert await work.post(entries) == len(entries)
        assert set(await work.entries_of("lease-1")) == set(entries)


@many
@given(
    bid=records(BidRecord, lease_id="lease-1"),
    decision=records(DecisionRecord, job_id="job-000001"),
    event=records(EventRecord),
    price=records(PriceObservation),
)
async def test_history(
    store: SqlStore, bid: BidRecord, decision: DecisionRecord, event: EventRecord, price: PriceObservation
) -> None:
    async with forgotten(store) as work:
        await work.save(a_job(leases=(a_lease(),)))
        await work.add_bid(bid)
        await work.add_decision(decision)
        await work.add_events([event])
        await work.add_prices([price, price])
        assert await work.bids_of("job-000001") == (bid,)
        assert await work.decisions_of("job-000001", limit=2) == (decision,)
        (seen,) = await work.events_of(None)
        assert replace(seen, seq=event.seq) == event


async def test_numbers_keep_their_type(store: SqlStore) -> None:
    """1, 1.0 and Decimal(1) are equal, so equality alone would not show a lost type."""
    numbers = (("a", Decimal("1.10")), ("b", 1), ("c", 1.0), ("d", "1"), ("e", None), ("f", float("inf")))
    async with store.transaction() as work:
        await work.save(a_job())
        await work.add_decision(DecisionRecord("d1", "job-000001", START, (), (), (Note("floor", numbers),)))
    async with store.snapshot() as work:
        ((note,),) = [decision.notes for decision in await work.decisions_of("job-000001", limit=1)]
    assert [repr(value) for _, value in note.numbers] == [repr(value) for _, value in numbers]


async def test_what_was_committed_is_seen_by_a_snapshot(store: SqlStore) -> None:
    lease = a_lease().billed_as(InstanceStatus.RUNNING, Decimal("0.31"), Decimal("0.002"), START)
    lease = lease.billed_as(InstanceStatus.STOPPED, Decimal("0.31"), Decimal("0.002"), START + timedelta(hours=1))
    job = a_job(leases=(lease,), checkpoint=a_checkpoint(3), spent=Decimal("0.000000001"))
    async with store.transaction() as work:
        # in any order: foreign keys are looked at when the transaction ends
        await work.add_checkpoint(a_checkpoint(3))
        await work.post([an_entry("e1", "0.000000001")])
        await work.save(job)
    async with store.snapshot() as work:
        assert await work.open_jobs() == (job,)
        assert len(job.leases[0].spans) == 2
