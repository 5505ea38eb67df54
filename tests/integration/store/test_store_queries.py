"""What each question of the port answers, by its docstring."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError
from store_records import START, a_checkpoint, a_job, a_lease, an_entry

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState, Slot
from autopilot.ports.provider import PriceObservation
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store.database import SqlStore

HOUR = timedelta(hours=1)


async def test_a_job_by_id_prefix_or_name(store: SqlStore) -> None:
    async with store.transaction() as work:
        await work.save(a_job("abcdef-1", name="train"))
        await work.save(a_job("abcdef-2", name="train", submitted_at=START + HOUR))
        await work.save(a_job("ABCDEF-3", name="abcdef-1", submitted_at=START - HOUR))
        found = {
            reference: job and job.id
            for reference in ("abcdef-1", "abcdef", "abcdef-", "abcde", "ABCDEF", "ABCDE", "train", "%bcdef-1", "")
            for job in [await work.job(reference)]
        }
    assert found == {
        "abcdef-1": "abcdef-1",  # an id goes before a name
        "abcdef": None,  # two have this prefix
        "abcdef-": None,
        "abcde": None,
        "ABCDEF": "ABCDEF-3",
        "ABCDE": None,  # too short for a prefix
        "train": "abcdef-2",  # the newest
        "%bcdef-1": None,
        "": None,
    }


async def test_open_jobs_are_those_not_final_or_still_holding_a_lease(store: SqlStore) -> None:
    late_release = a_lease("l-late", "late", state=LeaseState.DESTROY_SENT)
    over = a_lease("l-over", "over", state=LeaseState.GONE)
    async with store.transaction() as work:
        await work.save(a_job("open", submitted_at=START + 2 * HOUR))
        await work.save(a_job("late", status=JobStatus.SUCCEEDED, leases=(late_release,)))
        await work.save(a_job("over", status=JobStatus.FAILED, leases=(over,)))
        await work.save(a_job("parked", status=JobStatus.PARKED, submitted_at=START + HOUR))
    async with store.snapshot() as work:
        jobs = await work.open_jobs()
        assert [job.id for job in jobs] == ["late", "parked", "open"]
        assert jobs[0].leases == (late_release,)
        assert [job.id for job in await work.jobs(limit=3)] == ["open", "parked", "over"]
        finished = await work.job("over")
        assert finished is not None
        assert finished.leases == ()
        assert await work.leases_of("over") == (over,)


async def test_open_jobs_take_the_same_few_queries_however_many_jobs(store: SqlStore) -> None:
    queries: list[str] = []

    def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT"):
            queries.append(statement)

    async with store.transaction() as work:
        for number in range(20):
            job_id = f"job-{number:06}"
            await work.save(a_job(job_id, leases=(a_lease(f"lease-{number}", job_id),)))
    event.listen(Engine, "before_cursor_execute", count)
    try:
        async with store.snapshot() as work:
            assert len(await work.open_jobs()) == 20
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert len(queries) == 5


async def test_one_wanted_lease_per_slot(store: SqlStore) -> None:
    main = a_lease("l1")
    async with store.transaction() as work:
        await work.save(a_job(leases=(main, a_lease("l2", slot=Slot.NEXT))))
        await work.save_lease(a_lease("stray-1", None))
        await work.save_lease(a_lease("stray-2", None))  # strays hold no slot
    for state in (LeaseState.INTENT, LeaseState.ACTIVE, LeaseState.PAUSED):
        with pytest.raises(IntegrityError):
            async with store.transaction() as work:
                await work.save_lease(a_lease("l3", state=state))
    async with store.transaction() as work:
        await work.save_lease(a_lease("l3", state=LeaseState.DESTROY_REQUESTED))


async def test_a_promotion_is_saved_whatever_the_order_of_the_leases(store: SqlStore) -> None:
    old, new = a_lease("l1"), a_lease("l2", slot=Slot.NEXT, intended_at=START - HOUR)
    async with store.transaction() as work:
        await work.save(a_job(leases=(new, old)))
    promoted = (replace(new, slot=Slot.MAIN), replace(old, state=LeaseState.DESTROY_REQUESTED))
    async with store.transaction() as work:
        await work.save(a_job(leases=promoted))
    async with store.snapshot() as work:
        assert await work.leases_of("job-000001") == promoted


async def test_leases_by_label_stray_and_unsettled(store: SqlStore) -> None:
    stray = a_lease("stray", None, state=LeaseState.DESTROY_REQUESTED)
    leases = (
        a_lease("gone", instance_id="7", state=LeaseState.GONE),
        a_lease("gone-settled", instance_id="8", state=LeaseState.GONE, settled_at=START),
        a_lease("gone-never-rented", state=LeaseState.GONE),
        a_lease("abandoned", instance_id="9", state=LeaseState.ABANDONED),
    )
    async with store.transaction() as work:
        await work.save(a_job(leases=leases))
        await work.save_lease(stray)
        await work.save_lease(a_lease("stray-over", None, state=LeaseState.GONE))
    async with store.snapshot() as work:
        assert [lease.id for lease in await work.unsettled_leases()] == ["gone"]
        assert await work.stray_leases() == (stray,)
        labels = {"ap1.install.stray", "ap1.install.abandoned", "ap1.install.nobody"}
        assert {lease.id for lease in await work.leases_labelled(labels)} == {"stray", "abandoned"}
        assert await work.leases_labelled(()) == ()
        assert await work.lease("nobody") is None


async def test_launches_are_counted_by_job_from_an_instant_on(store: SqlStore) -> None:
    async with store.transaction() as work:
        await work.save(a_job())
        for number, at in enumerate((START - timedelta(microseconds=1), START, START + HOUR)):
            await work.save_lease(a_lease(f"l{number}", state=LeaseState.GONE, intended_at=at))
        await work.save_lease(a_lease("stray", None))
        assert await work.launches_since(START) == {"job-000001": 2, None: 1}


async def test_the_newest_checkpoint_is_the_jobs(store: SqlStore) -> None:
    older, newer, newest = a_checkpoint(9), a_checkpoint(0, run_epoch=2, lease_id="lease-2"), a_checkpoint(10)
    newest = replace(newest, run_epoch=2, lease_id="lease-2")
    async with store.transaction() as work:
        await work.save(a_job(leases=(a_lease("lease-1"), a_lease("lease-2", slot=Slot.NEXT))))
        for checkpoint in (newest, older, newer, newest):
            await work.add_checkpoint(checkpoint)
        assert await work.checkpoints_of("job-000001") == (newest, newer, older)
        await work.remove_checkpoint(newest)
        job = await work.job("job-000001")
    assert job is not None
    assert job.checkpoint == newer


async def test_a_bid_is_updated_by_its_outcome(store: SqlStore) -> None:
    bid = BidRecord("b1", "lease-1", START, Decimal("0.31"), "intended", "d1")
    earlier = BidRecord("b2", "lease-1", START - HOUR, Decimal("0.30"), "done", None)
    async with store.transaction() as work:
        await work.save(a_job(leases=(a_lease(),)))
        await work.add_bid(bid)
        await work.add_bid(earlier)
        await work.add_bid(replace(bid, outcome="refused"))
        assert await work.bids_of("job-000001") == (earlier, replace(bid, outcome="refused"))
        assert await work.bids_of("another") == ()


async def test_decisions_newest_first(store: SqlStore) -> None:
    decisions = [DecisionRecord(f"d{number}", "job-000001", START, (), (), ()) for number in range(12)]
    async with store.transaction() as work:
        await work.save(a_job())
        for decision in decisions:
            await work.add_decision(decision)
        assert await work.decisions_of("job-000001", limit=2) == (decisions[11], decisions[10])


async def test_events_are_read_on_from_a_sequence_number(store: SqlStore) -> None:
    names = ("job.submitted", "lease.intended", "lease.acquired")
    async with store.transaction() as work:
        await work.add_events(EventRecord(START, name, "job-000001", None) for name in names)
        await work.add_events([EventRecord(START, "orphan.found", None, "l9", (("rate", Decimal("0.1")),))])
        await work.add_events([])
    async with store.snapshot() as work:
        everything = await work.events_of(None)
        assert [event.name for event in everything] == [*names, "orphan.found"]
        assert [event.seq for event in everything] == [1, 2, 3, 4]
        assert await work.events_of("job-000001", after=1, limit=1) == (everything[1],)
        assert await work.events_of(None, after=3) == (everything[3],)


async def test_a_price_seen_twice_is_kept_once(store: SqlStore, ledger_path: Path) -> None:
    seen = PriceObservation("vastai", "m1", "RTX 4090", 1, Decimal("0.2"), None, START)
    async with store.transaction() as work:
        await work.add_prices([seen, seen, replace(seen, observed_at=START + HOUR)])
        await work.add_prices([seen])
    assert sqlite3.connect(ledger_path).execute("SELECT count(*) FROM price_observations").fetchone() == (2,)


async def test_notes(store: SqlStore) -> None:
    async with store.transaction() as work:
        assert await work.note("install_id") is None
        await work.set_note("install_id", "a")
        await work.set_note("install_id", "b")
        assert await work.note("install_id") == "b"


async def test_what_a_job_spent_leaves_reserves_out(store: SqlStore) -> None:
    async with store.transaction() as work:
        await work.save(a_job(leases=(a_lease(),)))
        for type_ in ("reserve", "accrue", "settle", "adjust", "void"):
            await work.post([an_entry(type_, "1.000000001", type=type_)])
        job = await work.job("job-000001")
    assert job is not None
    assert job.spent == Decimal("3.000000003")
