"""What every store does: the cases that SQLite, PostgreSQL and the duplicate in memory are held to, word for word.

Each method of each repository of ``UnitOfWork`` has its case here or in one of the modules that add to this class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot.domain.actions import Note
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import OVER, Billing, Ending, Lease, LeaseState, Slot, TaskUse
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import from_nano
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.ports.store import (
    BidRecord,
    ConstraintViolated,
    DecisionRecord,
    EventRecord,
    OwnerTotals,
    Store,
    StoreUnavailable,
    UnitOfWork,
)
from tests.contract.store_answers import WhatAStoreKeepsOfAnswers
from tests.contract.store_arrays import WhatAStoreKeepsOfArrays
from tests.contract.store_certificates import WhatAStoreKeepsOfCertificates
from tests.contract.store_code import WhatAStoreKeepsOfCode
from tests.contract.store_drifts import WhatAStoreKeepsOfDrift
from tests.contract.store_forecasts import WhatAStoreKeepsOfForecasts
from tests.contract.store_invoices import WhatReconciliationReads
from tests.contract.store_notices import WhatAStoreKeepsOfNotices
from tests.contract.store_readings import WhatAStoreKeepsOfMachines
from tests.contract.store_reports import WhatAStoreForgets, WhatAStoreKeepsOfPrices, WhatReportsRead
from tests.contract.store_schedules import WhatAStoreKeepsOfSchedules
from tests.contract.store_tokens import WhatAStoreKeepsOfTokens
from tests.store_records import DAY, START, a_checkpoint, a_job, a_lease, an_entry, forgotten, money, records, texts

HOUR = timedelta(hours=1)
OCT_31, NOV_1, NOV_30, DEC_1 = date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 30), date(2026, 12, 1)

many = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
live_states = st.sampled_from(sorted(set(LeaseState) - OVER))


@st.composite
def whole_jobs(draw: st.DrawFn) -> Job:
    id = draw(texts.filter(bool))
    leases = [
        draw(
            records(
                Lease,
                id=f"{slot}-{id}",
                job_id=id,
                slot=slot,
                state=live_states,
                uses=st.lists(records(TaskUse, job_id=id), max_size=1).map(tuple),  # of more a job has shares
            )
        )
        for slot in draw(st.lists(st.sampled_from(Slot), unique=True))
    ]
    ordered = tuple(sorted(leases, key=lambda lease: (lease.intended_at, lease.id)))
    checkpoint = (
        draw(st.none() | records(Checkpoint, job_id=id, lease_id=ordered[0].id, is_set_aside=False))
        if ordered
        else None
    )
    job: Job = draw(
        records(
            Job,
            id=id,
            leases=ordered,
            checkpoint=checkpoint,
            spent=money if ordered else Decimal(0),
            held=Decimal(0),
            is_estimate=False,  # of machines that other tasks have used, too
            schedule_id=st.sampled_from((None, f"schedule of {id}")),  # one firing for each instant
        )
    )
    return job


class WhatAStoreKeeps:
    """All that a record holds comes back equal."""

    async def test_many_jobs_are_saved_at_once(self, store: Store) -> None:
        jobs = [a_job(f"job-00000{number}") for number in range(3)]
        async with store.transaction() as work:
            await work.jobs.save_all([])
            await work.jobs.save_all(jobs)
        async with store.snapshot() as work:
            assert {job.id for job in await work.jobs.list_open()} == {job.id for job in jobs}

    @many
    @given(job=whole_jobs())
    async def test_a_job_with_all_that_belongs_to_it(self, store: Store, job: Job) -> None:
        async with forgotten(store) as work:
            await work.jobs.save(job)
            if job.leases:
                await work.ledger.post([an_entry("spent", job.spent, lease=job.leases[0])])
            if job.checkpoint:
                await work.checkpoints.add(job.checkpoint)
            assert await work.jobs.find(job.id) == job

    @many
    @given(before=records(Lease, id="lease-1", job_id=None), after=records(Lease, id="lease-1", job_id=None))
    async def test_a_lease_saved_again(self, store: Store, before: Lease, after: Lease) -> None:
        after = replace(after, spans=before.spans + after.spans, uses=before.uses + after.uses)
        async with forgotten(store) as work:
            await work.leases.save(before)
            await work.leases.save(after)
            assert await work.leases.get("lease-1") == after

    async def test_spans_that_a_lease_no_longer_tells_stay(self, store: Store) -> None:
        lease = a_lease().bill_as(InstanceStatus.RUNNING, Decimal(1), Decimal(0), START)
        lease = lease.bill_as(InstanceStatus.STOPPED, Decimal(1), Decimal(0), START + HOUR)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(lease,)))
            await work.leases.save(replace(lease, spans=lease.spans[:1]))
            assert await work.leases.get("lease-1") == lease

    @many
    @given(
        entries=st.lists(
            records(LedgerEntry, lease_id="lease-1", job_id=None, corrects=None, line_id=None),
            unique_by=lambda entry: entry.id,
        )
    )
    async def test_ledger_entries(self, store: Store, entries: list[LedgerEntry]) -> None:
        async with forgotten(store) as work:
            await work.leases.save(a_lease(job_id=None))
            assert await work.ledger.post(entries) == len(entries)
            assert set(await work.ledger.list_entries("lease-1")) == set(entries)

    @many
    @given(
        bid=records(BidRecord, lease_id="lease-1"),
        decision=records(DecisionRecord, job_id="job-000001"),
        event=records(EventRecord),
    )
    async def test_history(self, store: Store, bid: BidRecord, decision: DecisionRecord, event: EventRecord) -> None:
        async with forgotten(store) as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.bids.save(bid)
            await work.decisions.add(decision)
            await work.events.add([event])
            assert await work.bids.list_by_job("job-000001") == (bid,)
            assert await work.decisions.list_by_job("job-000001", limit=2) == (decision,)
            (seen,) = await work.events.list_after()
            assert replace(seen, seq=event.seq) == event

    async def test_numbers_keep_their_type(self, store: Store) -> None:
        """1, 1.0 and Decimal(1) are equal, so equality alone would not show a lost type."""
        numbers = (("a", Decimal("1.10")), ("b", 1), ("c", 1.0), ("d", "1"), ("e", None), ("f", float("inf")))
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            await work.decisions.add(DecisionRecord("d1", "job-000001", START, (), (), (Note("floor", numbers),)))
        async with store.snapshot() as work:
            ((note,),) = [decision.notes for decision in await work.decisions.list_by_job("job-000001", limit=1)]
        assert [repr(value) for _, value in note.numbers] == [repr(value) for _, value in numbers]

    @many
    @given(nanos=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=50))
    async def test_sums_are_exact_to_the_nano_dollar(self, store: Store, nanos: list[int]) -> None:
        exact = from_nano(sum(nanos))
        async with forgotten(store) as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.ledger.post(an_entry(f"e{number}", from_nano(nano)) for number, nano in enumerate(nanos))
            assert (await work.ledger.sum_totals(DAY)).month == exact
            assert (await work.ledger.sum_by_day(["lease-1"]))["lease-1"] == {(CostKind.COMPUTE, DAY): exact}
            assert [job.spent for job in await work.jobs.list_open()] == [exact]

    async def test_an_amount_finer_than_a_nano_dollar_is_refused(self, store: Store) -> None:
        async with forgotten(store) as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            with pytest.raises(Exception, match="nano"):
                await work.ledger.post([an_entry("fine", "0.0000000001")])


class WhatAStoreAnswers:
    """Each question of the port, by its docstring."""

    async def test_a_job_by_id_prefix_or_name(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("abcdef-1", name="train"))
            await work.jobs.save(a_job("abcdef-2", name="train", submitted_at=START + HOUR))
            await work.jobs.save(a_job("ABCDEF-3", name="abcdef-1", submitted_at=START - HOUR))
            found = {
                reference: job and job.id
                for reference in ("abcdef-1", "abcdef", "abcdef-", "abcde", "ABCDEF", "ABCDE", "train", "%bcdef-1", "")
                for job in [await work.jobs.find(reference)]
            }
        assert found == {
            "abcdef-1": "abcdef-1",  # an id goes before a name
            "abcdef": None,  # two begin so
            "abcdef-": None,
            "abcde": None,
            "ABCDEF": "ABCDEF-3",
            "ABCDE": None,  # too short for a prefix
            "train": "abcdef-2",  # the newest
            "%bcdef-1": None,
            "": None,
        }
        async with store.snapshot() as view:
            assert {job.id for job in await view.jobs.list_by_prefix("abcdef")} == {"abcdef-1", "abcdef-2"}
            assert await view.jobs.list_by_prefix("%") == ()

    async def test_a_job_among_its_owner_s_alone(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("abcdef-1", name="train", owner=1000))
            await work.jobs.save(a_job("abcdef-2", name="train", owner=-3, submitted_at=START + HOUR))
            await work.jobs.save(a_job("abcdef-3", name="test", owner=-3))
        async with store.snapshot() as view:
            for reference in ("abcdef-1", "train", "abcdef"):
                assert await view.jobs.find(reference, owner=7) is None
            assert [job.id for job in await view.jobs.list_newest(limit=9, owner=-3)] == ["abcdef-2", "abcdef-3"]
            assert await view.jobs.list_newest_ids(limit=9, owner=-3) == ("abcdef-2", "abcdef-3")
            assert await view.jobs.list_newest_ids(limit=2) == ("abcdef-2", "abcdef-3")
            assert {job.id for job in await view.jobs.list_by_prefix("abcdef", owner=-3)} == {"abcdef-2", "abcdef-3"}
            found = [
                await view.jobs.find(reference, owner=owner)
                for reference, owner in (("train", -3), ("abcdef", 1000), ("abcdef-1", -3), ("train", None))
            ]
        # A token's job takes no name away from a user's.
        assert [job and job.id for job in found] == ["abcdef-2", "abcdef-1", None, "abcdef-1"]

    async def test_open_jobs_are_those_not_final_or_still_holding_a_lease(self, store: Store) -> None:
        late_release = a_lease("l-late", "late", state=LeaseState.DESTROY_SENT)
        over = a_lease("l-over", "over", state=LeaseState.GONE)
        async with store.transaction() as work:
            await work.jobs.save(a_job("open", submitted_at=START + 2 * HOUR))
            await work.jobs.save(a_job("late", status=JobStatus.SUCCEEDED, leases=(late_release,)))
            await work.jobs.save(a_job("over", status=JobStatus.FAILED, leases=(over,)))
            await work.jobs.save(a_job("parked", status=JobStatus.PARKED, submitted_at=START + HOUR))
        async with store.snapshot() as work:
            jobs = await work.jobs.list_open()
            assert [job.id for job in jobs] == ["late", "parked", "open"]
            assert jobs[0].leases == (late_release,)
            assert [job.id for job in await work.jobs.list_newest(limit=3)] == ["open", "parked", "over"]
            rest = await work.jobs.list_newest(limit=9, before=(START + HOUR, "parked"))
            assert [job.id for job in rest] == ["over", "late"]
            assert [job.id for job in await work.jobs.list_newest(limit=9, before=(START, "over"))] == ["late"]
            assert [job.id for job in await work.jobs.list_newest(limit=9, since=START + HOUR)] == ["open", "parked"]
            assert [job.id for job in await work.jobs.list_newest(limit=9, is_over=True)] == ["over", "late"]
            assert [job.id for job in await work.jobs.list_newest(limit=1, is_over=True)] == ["over"]
            finished = await work.jobs.find("over")
            assert finished is not None
            assert finished.leases == ()
            assert await work.leases.list_by_job("over") == (over,)
        async with store.transaction() as work:
            await work.leases.save(replace(late_release, state=LeaseState.GONE))
            await work.jobs.save(a_job("open", status=JobStatus.CANCELLED))
            assert [job.id for job in await work.jobs.list_open()] == ["parked"]

    async def test_a_transaction_makes_a_new_revision_however_it_ends(self, store: Store) -> None:
        before = store.revision
        async with store.snapshot() as work:
            await work.jobs.list_open()
        async with store.transaction() as work:
            assert store.revision == before, "nothing was written since"
            await work.jobs.save(a_job("one"))
        saved = store.revision
        with pytest.raises(RuntimeError):
            async with store.transaction():
                raise RuntimeError
        assert len({before, saved, store.revision}) == 3

    async def test_a_writer_that_has_waited_for_another_finds_a_new_revision(self, store: Store) -> None:
        is_open, may_end = asyncio.Event(), asyncio.Event()

        async def write_slowly() -> None:
            async with store.transaction() as work:
                is_open.set()
                await may_end.wait()
                await work.jobs.save(a_job("one"))

        async def read_in_a_transaction() -> tuple[int, int]:
            async with store.transaction() as work:
                return store.revision, len(await work.jobs.list_open())

        first = asyncio.create_task(write_slowly())
        await is_open.wait()
        before = store.revision
        second = asyncio.create_task(read_in_a_transaction())
        may_end.set()
        revision, found = await second
        await first
        assert found == 1
        assert revision != before

    async def test_leases_that_ended_lately_for_a_reason(self, store: Store) -> None:
        """However long before they were rented."""
        lost, later = (Reason.OUTBID, Reason.DISPLACED), START + timedelta(hours=9)
        leaves = {"reason": Reason.OUTBID, "state": LeaseState.DESTROY_REQUESTED}
        leases = (
            a_lease("held-for-long", ending=Ending(requested_at=later), instance_id="1", **leaves),
            a_lease("lost-before", ending=Ending(requested_at=START), instance_id="2", **leaves),
            a_lease("refused", reason=Reason.DISPLACED, state=LeaseState.ABANDONED, intended_at=later),
            a_lease("wanted", reason=Reason.OUTBID, instance_id="3", intended_at=later),
            a_lease("released", ending=Ending(requested_at=later), instance_id="4", state=LeaseState.GONE),
        )
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            for lease in leases:
                await work.leases.save(lease)
        async with store.snapshot() as work:
            assert [lease.id for lease in await work.leases.list_ended(lost, later)] == ["held-for-long", "refused"]
            ended = await work.leases.list_ended((Reason.OUTBID,), START)
            assert {lease.id for lease in ended} == {"held-for-long", "lost-before"}
            assert await work.leases.list_ended(lost, later + timedelta(seconds=1)) == ()

    async def test_leases_by_label_stray_and_unsettled(self, store: Store) -> None:
        orphan = a_lease("orphan", None, state=LeaseState.DESTROY_REQUESTED)
        leases = (
            a_lease("gone", instance_id="7", state=LeaseState.GONE),
            a_lease("gone-settled", instance_id="8", state=LeaseState.GONE, settled_at=START),
            a_lease("gone-never-rented", state=LeaseState.GONE),
            a_lease("abandoned", instance_id="9", state=LeaseState.ABANDONED),
        )
        unknown: dict[str, Any] = {"state": LeaseState.ABANDONED, "create_unknown": True}
        never_listed = [
            a_lease("may-be-billed", unobserved=Decimal(1), **unknown),
            a_lease("cannot-have-run", **unknown),
            a_lease("written-off", unobserved=Decimal(1), settled_at=START, **unknown),
        ]
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=leases))
            for lease in (*never_listed, orphan):
                await work.leases.save(lease)
            await work.leases.save(a_lease("orphan-over", None, state=LeaseState.GONE))
        async with store.snapshot() as work:
            assert [lease.id for lease in await work.leases.list_unsettled()] == ["gone", "may-be-billed"]
            assert await work.leases.list_orphans() == (orphan,)
            assert [lease.id for lease in await work.leases.list_spot(START)] == ["abandoned", "gone", "gone-settled"]
            assert await work.leases.list_spot(START + timedelta(seconds=1)) == ()
            labels = {"ap1.install.orphan", "ap1.install.abandoned", "ap1.install.unknown"}
            assert {lease.id for lease in await work.leases.list_by_label(labels)} == {"orphan", "abandoned"}
            assert await work.leases.list_by_label(()) == ()
            assert await work.leases.get("unknown") is None
        async with store.transaction() as work:
            await work.leases.save(replace(orphan, state=LeaseState.GONE, label="ap1.install.other"))
            assert await work.leases.list_orphans() == ()
            assert [
                lease.id for lease in await work.leases.list_by_label(["ap1.install.orphan", "ap1.install.other"])
            ] == ["orphan"]

    async def test_launches_are_counted_by_job_from_an_instant_on(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            for number, at in enumerate((START - timedelta(microseconds=1), START, START + HOUR)):
                await work.leases.save(a_lease(f"l{number}", state=LeaseState.GONE, intended_at=at))
            await work.leases.save(a_lease("refused", state=LeaseState.ABANDONED, instance_id=None, intended_at=START))
            await work.leases.save(a_lease("lost", state=LeaseState.GONE, instance_id="7", intended_at=START))
            await work.leases.save(a_lease("orphan", None))
            counted = {"job-000001": LaunchCount(rented=3, refused=1), None: LaunchCount(rented=1)}
            assert await work.leases.count_launches(START) == counted
            assert await work.leases.count_launches(START + 2 * HOUR) == {}

    async def test_the_newest_checkpoint_is_the_jobs(self, store: Store) -> None:
        older, newer, newest = a_checkpoint(9), a_checkpoint(0, run_epoch=2, lease_id="lease-2"), a_checkpoint(10)
        newest = replace(newest, run_epoch=2, lease_id="lease-2")
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease("lease-1"), a_lease("lease-2", slot=Slot.NEXT))))
            for checkpoint in (newest, older, newer, newest):
                await work.checkpoints.add(checkpoint)
            assert await work.checkpoints.list_by_job("job-000001") == (newest, newer, older)
            await work.checkpoints.set_aside(newest, True)
            aside = replace(newest, is_set_aside=True)
            assert await work.checkpoints.list_by_job("job-000001") == (newer, older, aside)
            found = await work.jobs.find("job-000001")
            assert (found.checkpoint if found else None) == newer, "what is set aside is not what a job resumes from"
            await work.checkpoints.set_aside(newest, False)
            assert await work.checkpoints.list_by_job("job-000001") == (newest, newer, older)
            await work.checkpoints.remove(newest)
            await work.checkpoints.remove(newest)
            job = await work.jobs.find("job-000001")
        assert job is not None
        assert job.checkpoint == newer

    async def test_a_bid_is_updated_by_its_outcome(self, store: Store) -> None:
        bid = BidRecord("b1", "lease-1", START, Decimal("0.31"), "intended", "d1")
        earlier = BidRecord("b2", "lease-1", START - HOUR, Decimal("0.30"), "done", None)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.bids.save(bid)
            await work.bids.save(earlier)
            await work.bids.save(replace(bid, outcome="refused"))
            assert await work.bids.list_by_job("job-000001") == (earlier, replace(bid, outcome="refused"))
            assert await work.bids.list_by_job("another") == ()

    async def test_decisions_newest_first(self, store: Store) -> None:
        decisions = [DecisionRecord(f"d{number}", "job-000001", START, (), (), ()) for number in range(12)]
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            for decision in decisions:
                await work.decisions.add(decision)
            assert await work.decisions.list_by_job("job-000001", limit=2) == (decisions[11], decisions[10])
            assert await work.decisions.list_newest(limit=2) == (decisions[11], decisions[10])

    async def test_titles_leases_and_events_of_several_jobs_at_once(self, store: Store) -> None:
        async with store.transaction() as work:
            for number, owner in ((1, 7), (2, -1), (3, 0)):
                ended = {"status": JobStatus.SUCCEEDED, "finished_at": START} if number == 1 else {}
                await work.jobs.save(a_job(f"job-{number}", name=f"train-{number}", owner=owner, **ended))
                await work.leases.save(a_lease(f"lease-{number}", f"job-{number}", instance_id=str(number)))
            for number in range(6):
                name = ("agent.reported", "lease.running")[number == 5]
                await work.events.add([EventRecord(START, name, f"job-{1 + number % 3}", None, (("n", number),))])
            assert await work.jobs.list_titles(["job-1", "job-2", "none"]) == {
                "job-1": ("train-1", 7, JobStatus.SUCCEEDED, START),
                "job-2": ("train-2", -1, JobStatus.PENDING, None),
            }
            assert [lease.id for lease in await work.leases.list_by_jobs(["job-3", "job-1"])] == ["lease-1", "lease-3"]
            found = await work.events.list_named("agent.reported", ["job-1", "job-2"], limit=3)
            assert [dict(event.fields)["n"] for event in found] == [1, 3, 4]
            assert await work.events.list_named("agent.reported", [], limit=3) == ()
            assert await work.leases.list_by_jobs([]) == ()
            assert await work.jobs.list_titles([]) == {}

    async def test_decisions_of_all_jobs_in_pages_and_of_one_owner(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job("job-000001", owner=7))
            await work.jobs.save(a_job("job-000002", owner=-1))
            made = [DecisionRecord(f"d{n}", f"job-00000{1 + n % 2}", START, (), (), ()) for n in range(6)]
            for decision in made:
                await work.decisions.add(decision)
            assert await work.decisions.list_newest(limit=3, before="d4") == (made[3], made[2], made[1])
            assert await work.decisions.list_newest(limit=9, owner=-1) == (made[5], made[3], made[1])
            assert await work.decisions.list_newest(limit=9, before="d3", owner=7) == (made[2], made[0])
            assert await work.decisions.list_newest(limit=9, before="none") == ()
            assert await work.decisions.list_newest(limit=9, owner=8) == ()

    async def test_events_are_read_on_from_a_sequence_number(self, store: Store) -> None:
        names = ("job.submitted", "lease.intended", "lease.acquired")
        async with store.transaction() as work:
            assert await work.events.find_newest() is None
            await work.events.add(EventRecord(START, name, "job-000001", None) for name in names)
            found = EventRecord(START + HOUR, "orphan.found", None, "l9", (("rate", Decimal("0.1")),))
            await work.events.add([found])
            await work.events.add([])
        async with store.snapshot() as work:
            everything = await work.events.list_after()
            assert [event.name for event in everything] == [*names, "orphan.found"]
            assert [event.seq for event in everything] == [1, 2, 3, 4]
            assert await work.events.list_after(1, limit=2) == everything[1:3]
            assert await work.events.list_after(0, since=START + HOUR) == everything[3:]
            assert await work.events.list_after(0, limit=1, since=START) == everything[:1]
            assert await work.events.list_after(3) == (everything[3],)
            assert await work.events.find_newest() == everything[3]

    async def test_of_one_job_the_newest_events_are_read_in_their_order(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.events.add(
                EventRecord(START, f"{job}.{number}", job, None)
                for number in range(1, 6)
                for job in ("job-000001", "job-000002")
            )
        async with store.snapshot() as work:
            newest = await work.events.list_by_job("job-000001", limit=2)
            assert [event.name for event in newest] == ["job-000001.4", "job-000001.5"]
            assert len(await work.events.list_by_job("job-000001")) == 5

    async def test_a_price_seen_twice_is_kept_once(self, store: Store) -> None:
        seen = PriceObservation("vastai", "m1", "RTX 4090", 1, Decimal("0.2"), None, START)
        later = replace(seen, observed_at=START + HOUR)
        async with store.transaction() as work:
            await work.prices.add([seen, replace(seen, floor=Decimal(9)), later])
            await work.prices.add([replace(seen, floor=Decimal(8))])
            assert await work.prices.list_by_gpu("RTX 4090", START, START + 2 * HOUR) == (seen, later)

    async def test_notes(self, store: Store) -> None:
        async with store.transaction() as work:
            assert await work.notes.get("install_id") is None
            await work.notes.set("install_id", "a")
            await work.notes.set("install_id", "b")
            assert await work.notes.get("install_id") == "b"


class HowAStoreCountsMoney:
    async def test_an_id_is_posted_once(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            first = [an_entry("a1", "1"), an_entry("a2", "2")]
            assert await work.ledger.post([*first, an_entry("a1", "999")]) == 2
        async with store.transaction() as work:
            again = [an_entry("a1", "999"), an_entry("new", "3"), an_entry("a2", "999")]
            assert await work.ledger.post(again) == 1
            assert await work.ledger.post(again) == 0
            assert await work.ledger.post([]) == 0
        async with store.snapshot() as work:
            amounts = {entry.id: entry.amount for entry in await work.ledger.list_entries("lease-1")}
            assert (await work.ledger.sum_totals(DAY)).day == Decimal(6)
        assert amounts == {"a1": Decimal(1), "a2": Decimal(2), "new": Decimal(3)}

    async def test_entries_stand_in_the_order_of_posting(self, store: Store) -> None:
        late, early = an_entry("a", "1", posted_at=START + HOUR), an_entry("z", "1", posted_at=START)
        middle = an_entry("b", "1", posted_at=START + HOUR)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.ledger.post([middle, late, early])
            assert await work.ledger.list_entries("lease-1") == (early, late, middle)

    async def test_what_bills_have_changed_since(self, store: Store) -> None:
        """Of one job or of all, of a month's days or of any; accruals and reserves are no bills."""
        ours, other = a_lease("lease-1"), a_lease("lease-2", "job-000002")
        later = START + HOUR
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(ours,)))
            await work.jobs.save(a_job("job-000002", leases=(other,)))
            await work.ledger.post(
                [
                    an_entry("1", "-4", lease=ours, type="adjust", day=NOV_30, posted_at=START),
                    an_entry("2", "0.5", lease=other, type="settle", day=DEC_1, posted_at=later),
                    an_entry("3", "-1", lease=ours, type="adjust", day=DEC_1, posted_at=later),
                    an_entry("4", "7", lease=ours, type="accrue", day=DEC_1, posted_at=later),
                    an_entry("5", "7", lease=ours, type="reserve", day=DEC_1, posted_at=later),
                ]
            )
        async with store.snapshot() as work:
            assert await work.ledger.sum_corrections(START) == Decimal("-4.5")
            assert await work.ledger.sum_corrections(later) == Decimal("-0.5")
            assert await work.ledger.sum_corrections(later + timedelta(seconds=1)) == 0
            assert await work.ledger.sum_corrections(START, job_id="job-000001") == -5
            assert await work.ledger.sum_corrections(START, job_id="job-000002", from_day=NOV_30) == Decimal("0.5")
            assert await work.ledger.sum_corrections(START, from_day=DEC_1) == Decimal("-0.5")

    async def test_a_hold_that_is_released_is_money_back_where_the_machine_was_gone_by_then(self, store: Store) -> None:
        ended = {"state": LeaseState.GONE, "instance_id": "1"}
        early, late = START + HOUR, START + 2 * HOUR
        gone, going = a_lease("lease-1", gone_at=START, **ended), a_lease("lease-2", gone_at=early, **ended)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(gone, going)))
            await work.ledger.post(
                [
                    an_entry("1", "6", lease=gone, type="reserve", posted_at=START),
                    an_entry("2", "-4", lease=gone, type="adjust", day=DEC_1, posted_at=START),
                    an_entry("3", "-1", lease=gone, type="void", posted_at=early),
                    an_entry("4", "-5", lease=gone, type="void", day=NOV_30, posted_at=late),
                    an_entry("5", "-7", lease=going, type="void", posted_at=late),
                ]
            )
        async with store.snapshot() as work:
            assert await work.ledger.sum_corrections(START) == -4, "what counts now, and nothing twice"
            assert await work.ledger.sum_corrections(early) == -4, (
                "no more than the bill gave back; the rest is traffic"
            )
            assert await work.ledger.sum_corrections(early, job_id="job-000001", from_day=DEC_1) == -4, "of any day"
            assert await work.ledger.sum_corrections(early, job_id="job-000002") == 0
            assert await work.ledger.sum_corrections(late) == 0

    async def test_what_is_held_back_for_bills_that_are_not_in(self, store: Store) -> None:
        gone = {"state": LeaseState.GONE, "instance_id": "1"}
        live, waiting, other = a_lease("lease-1"), a_lease("lease-2", **gone), a_lease("lease-3", None, **gone)
        settled = a_lease("lease-4", **gone, billing=Billing(settled_at=START))
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(live,)))
            for lease in (waiting, other, settled):
                await work.leases.save(lease)
            await work.ledger.post(
                an_entry(f"r-{lease.id}", str(number), lease=lease, type="reserve")
                for number, lease in enumerate((live, waiting, other, settled), 1)
            )
            await work.ledger.post(
                [an_entry("v", "-0.5", lease=waiting, type="void"), an_entry("a", "9", lease=waiting)]
            )
        async with store.snapshot() as work:
            assert await work.ledger.sum_held() == {"job-000001": Decimal("1.5"), None: Decimal(3)}
            (job,) = await work.jobs.list_open()
        assert job.held == Decimal("1.5")

    async def test_posted_by_lease_kind_and_day_and_in_total(self, store: Store) -> None:
        first, second = a_lease("lease-1"), a_lease("lease-2", slot=Slot.NEXT)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(first, second)))
            await work.ledger.post(
                [
                    an_entry("r1", "50", day=NOV_1, lease=first, type="reserve"),
                    an_entry("v1", "-50", day=NOV_1, lease=first, type="void", corrects="r1"),
                    an_entry("a1", "1", day=OCT_31, lease=first),
                    an_entry("a2", "2", day=NOV_1, lease=first),
                    an_entry("s1", "-0.000000001", day=NOV_1, lease=first, type="settle"),
                    an_entry("b1", "0.25", day=NOV_30, lease=second, kind=CostKind.BANDWIDTH),
                    an_entry("d1", "8", day=DEC_1, lease=second, type="adjust"),
                ]
            )
        async with store.snapshot() as work:
            assert await work.ledger.sum_by_day(["lease-1", "lease-2", "unknown"]) == {
                "lease-1": {
                    (CostKind.COMPUTE, OCT_31): Decimal(1),
                    (CostKind.COMPUTE, NOV_1): Decimal("1.999999999"),
                },
                "lease-2": {(CostKind.BANDWIDTH, NOV_30): Decimal("0.25"), (CostKind.COMPUTE, DEC_1): Decimal(8)},
                "unknown": {},
            }
            totals = {day: await work.ledger.sum_totals(day) for day in (OCT_31, NOV_1, date(2026, 11, 15), DEC_1)}
            job = await work.jobs.find("job-000001")
        assert {day: (total.day, total.month) for day, total in totals.items()} == {
            OCT_31: (Decimal(1), Decimal(1)),
            NOV_1: (Decimal("1.999999999"), Decimal("2.249999999")),
            date(2026, 11, 15): (Decimal(0), Decimal("2.249999999")),
            DEC_1: (Decimal(8), Decimal(8)),
        }
        assert job is not None
        assert job.spent == Decimal("11.249999999")


class HowAStoreSumsUpAMarket:
    async def test_spend_and_what_is_held_there_without_certifications_and_since_a_moment(self, store: Store) -> None:
        end = datetime(2026, 11, 1, 12, tzinfo=UTC)
        before, after = end - timedelta(hours=1), end + timedelta(hours=1)
        old = a_lease("old", "mine", intended_at=before)
        new = a_lease("new", "mine", slot=Slot.NEXT, intended_at=after)
        gone = a_lease("gone", "mine", state=LeaseState.GONE, instance_id="7", intended_at=after, gone_at=after)
        long_gone = a_lease("long", "mine", state=LeaseState.GONE, instance_id="8", intended_at=before, gone_at=before)
        certifying, orphan = a_lease("proof", "proof"), a_lease("orphan", None, intended_at=after)
        elsewhere = a_lease("else", "mine", provider="runpod", state=LeaseState.GONE, instance_id="9")
        async with store.transaction() as work:
            await work.jobs.save(a_job("mine", leases=(old,)))
            await work.jobs.save(a_job("proof", certifies="vastai", leases=(certifying,)))
            for lease in (new, gone, long_gone, elsewhere, orphan):
                await work.leases.save(lease)
            for n, (lease, amount, day, posted_at) in enumerate(
                [
                    (old, "1", NOV_1, before),
                    (old, "0.5", NOV_1, after),
                    (old, "-0.25", NOV_1, after),
                    (old, "2", OCT_31, after),
                    (new, "4", NOV_1, after),
                    (new, "-0.125", NOV_1, after),
                    (gone, "8", NOV_1, after),
                    (certifying, "16", NOV_1, after),
                    (elsewhere, "32", NOV_1, after),
                    (orphan, "64", NOV_1, after),
                ]
            ):
                await work.ledger.post([an_entry(f"e{n}", amount, lease=lease, day=day, posted_at=posted_at)])
            for lease in (old, gone, long_gone, certifying, elsewhere):
                await work.ledger.post([an_entry(f"r-{lease.id}", "3", lease=lease, type=EntryType.RESERVE)])

            assert await work.ledger.sum_market("vastai", None) == OwnerTotals(Decimal("79.125"), Decimal(6))
            assert await work.ledger.sum_market("vastai", end) == OwnerTotals(Decimal("75.875"), Decimal(3))
            assert await work.ledger.sum_market("mithril", None) == OwnerTotals(Decimal(0), Decimal(0))


class HowAStoreSumsUpAnOwner:
    async def test_spend_of_the_owner_s_jobs_and_what_is_held_for_machines_that_are_gone(self, store: Store) -> None:
        before = DAY - timedelta(days=1)
        gone = a_lease("gone", "mine-2", state=LeaseState.GONE, instance_id="7")
        settled = a_lease("settled", "mine-2", state=LeaseState.GONE, instance_id="8", settled_at=START)
        async with store.transaction() as work:
            await work.jobs.save(a_job("mine-1", owner=-3, leases=(a_lease("l1", "mine-1"),)))
            await work.jobs.save(a_job("mine-2", owner=-3, status=JobStatus.FAILED, leases=(gone, settled)))
            await work.jobs.save(a_job("other", owner=-30, leases=(a_lease("l3", "other"),)))
            for n, (lease, amount, day) in enumerate(
                [
                    (a_lease("l1", "mine-1"), "1", DAY),
                    (gone, "0.25", DAY),
                    (gone, "0.5", before),
                    (gone, "-0.125", before),
                    (a_lease("l3", "other"), "64", DAY),
                ]
            ):
                await work.ledger.post([an_entry(f"e{n}", amount, lease=lease, day=day)])
            for lease in (a_lease("l1", "mine-1"), gone, settled, a_lease("l3", "other")):
                await work.ledger.post([an_entry(f"r-{lease.id}", "8", lease=lease, type=EntryType.RESERVE)])

            assert await work.ledger.sum_owners({-3}, None) == OwnerTotals(Decimal("1.625"), Decimal(8))
            assert await work.ledger.sum_owners({-3}, DAY) == OwnerTotals(Decimal("1.25"), Decimal(8))
            assert await work.ledger.sum_owners({-3}, DAY + timedelta(days=1)) == OwnerTotals(Decimal(0), Decimal(8))
            assert await work.ledger.sum_owners({-3, -30, -7}, DAY) == OwnerTotals(Decimal("65.25"), Decimal(8))
            assert (
                await work.ledger.sum_owners({-7}, None)
                == await work.ledger.sum_owners((), None)
                == OwnerTotals(Decimal(0), Decimal(0))
            )


class WhatAStoreRefuses:
    async def test_two_wanted_leases_in_a_slot(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease("l1"), a_lease("l2", slot=Slot.NEXT))))
            await work.leases.save(a_lease("orphan-1", None))
            await work.leases.save(a_lease("orphan-2", None))  # orphans hold no slot
        for state in (LeaseState.INTENT, LeaseState.ACTIVE, LeaseState.PAUSED):
            with pytest.raises(ConstraintViolated):
                async with store.transaction() as work:
                    await work.leases.save(a_lease("l3", state=state))
        async with store.transaction() as work:
            await work.leases.save(a_lease("l3", state=LeaseState.DESTROY_REQUESTED))
            await work.leases.save(a_lease("l1", state=LeaseState.GONE))
            await work.leases.save(a_lease("l4"))
            assert [lease.id for lease in await work.leases.list_by_job("job-000001")] == ["l1", "l2", "l3", "l4"]

    async def test_a_promotion_is_saved_in_any_order_of_the_leases(self, store: Store) -> None:
        old, new = a_lease("l1"), a_lease("l2", slot=Slot.NEXT, intended_at=START - HOUR)
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(new, old)))
        promoted = (replace(new, slot=Slot.MAIN), replace(old, state=LeaseState.DESTROY_REQUESTED))
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=promoted))
        async with store.snapshot() as work:
            assert await work.leases.list_by_job("job-000001") == promoted

    async def test_rows_that_name_what_is_not_there(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
        for entry in (an_entry("x", "1", lease=a_lease("unknown")), an_entry("x", "1", corrects="nothing")):
            with pytest.raises(ConstraintViolated):
                async with store.transaction() as work:
                    await work.ledger.post([entry])
        writes: tuple[Callable[[UnitOfWork], Awaitable[object]], ...] = (
            lambda work: work.leases.save(a_lease("l2", "no-such-job", slot=Slot.NEXT)),
            lambda work: work.bids.save(BidRecord("b", "unknown", START, Decimal(1), "intended", None)),
            lambda work: work.checkpoints.add(a_checkpoint(1, lease_id="unknown")),
            lambda work: work.decisions.add(DecisionRecord("d", "no-such-job", START, (), (), ())),
        )
        for write in writes:
            with pytest.raises(ConstraintViolated):
                async with store.transaction() as work:
                    await write(work)
        async with store.snapshot() as work:
            assert await work.ledger.sum_totals(DAY) == await work.ledger.sum_totals(NOV_30)
            assert len(await work.leases.list_by_job("job-000001")) == 1

    async def test_references_are_looked_at_when_the_transaction_ends(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.checkpoints.add(a_checkpoint(3))
            await work.ledger.post([an_entry("correction", "1", corrects="first"), an_entry("first", "1")])
            await work.jobs.save(a_job(leases=(a_lease(),)))
        async with store.snapshot() as work:
            (job,) = await work.jobs.list_open()
        assert (job.checkpoint, job.spent) == (a_checkpoint(3), Decimal(2))

    async def test_a_decision_recorded_twice(self, store: Store) -> None:
        decision = DecisionRecord("d1", "job-000001", START, (), (), ())
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            await work.decisions.add(decision)
        with pytest.raises(ConstraintViolated):
            async with store.transaction() as work:
                await work.decisions.add(decision)

    async def test_a_write_in_a_snapshot(self, store: Store) -> None:
        with pytest.raises(StoreUnavailable, match="read-only"):
            async with store.snapshot() as work:
                await work.notes.set("key", "value")


class WhatATransactionIs:
    async def test_all_or_nothing(self, store: Store) -> None:
        async def fail() -> None:
            async with store.transaction() as work:
                await work.jobs.save(a_job(leases=(a_lease(),)))
                await work.ledger.post([an_entry("e1", "1")])
                await work.events.add([EventRecord(START, "job.submitted", None, None)])
                raise ZeroDivisionError

        async with store.transaction() as work:
            await work.notes.set("before", "kept")
        with pytest.raises(ZeroDivisionError):
            await fail()
        async with store.snapshot() as work:
            assert (await work.jobs.list_open(), await work.ledger.list_entries("lease-1")) == ((), ())
            assert (await work.ledger.sum_totals(DAY)).month == 0
            assert await work.events.list_after() == ()
            assert await work.notes.get("before") == "kept"

    async def test_only_it_sees_its_own_writes(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.ledger.post([an_entry("e1", "1")])
            assert [job.spent for job in await work.jobs.list_open()] == [Decimal(1)]
            async with store.snapshot() as other:
                assert await other.jobs.list_open() == ()
                assert await other.ledger.list_entries("lease-1") == ()

    async def test_a_snapshot_stays_as_it_was(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            await work.ledger.post([an_entry("e1", "1")])
            await work.notes.set("count", "1")
        async with store.snapshot() as before:
            assert await before.notes.get("count") == "1"
            async with store.transaction() as work:
                await work.jobs.save(
                    a_job(leases=(replace(a_lease(), state=LeaseState.GONE),), status=JobStatus.FAILED)
                )
                await work.jobs.save(a_job("job-000002"))
                await work.ledger.post([an_entry("e2", "1")])
                await work.notes.set("count", "2")
            assert await before.notes.get("count") == "1"
            assert [(job.id, job.status, job.spent) for job in await before.jobs.list_open()] == [
                ("job-000001", JobStatus.PENDING, Decimal(1))
            ]
            assert [entry.id for entry in await before.ledger.list_entries("lease-1")] == ["e1"]
            assert (await before.ledger.sum_totals(DAY)).day == 1
            async with store.snapshot() as after:
                assert [job.id for job in await after.jobs.list_open()] == ["job-000002"]
                assert (await after.ledger.sum_totals(DAY)).day == 2

    async def test_writers_wait_for_each_other(self, store: Store) -> None:
        async def count_up() -> None:
            async with store.transaction() as work:
                value = int(await work.notes.get("count") or 0)
                await asyncio.sleep(0)
                await work.notes.set("count", str(value + 1))

        await asyncio.gather(*(count_up() for _ in range(20)))
        async with store.snapshot() as work:
            assert await work.notes.get("count") == "20"

    async def test_a_cancelled_one_leaves_nothing_and_the_store_usable(self, store: Store) -> None:
        written = asyncio.Event()

        async def write() -> None:
            async with store.transaction() as work:
                await work.jobs.save(a_job("cancelled"))
                written.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(write())
        await written.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with store.transaction() as work:
            await work.jobs.save(a_job("after"))
        async with store.snapshot() as work:
            assert [job.id for job in await work.jobs.list_newest(limit=10)] == ["after"]

    async def test_a_failure_that_the_caller_swallows_still_ends_it(self, store: Store) -> None:
        async def swallow() -> None:
            async with store.transaction() as work:
                await work.jobs.save(a_job(leases=(a_lease("l1"),)))
                with pytest.raises(ConstraintViolated):
                    await work.leases.save(a_lease("l2"))
                with pytest.raises(ConstraintViolated):
                    await work.notes.set("half", "written")

        with pytest.raises(ConstraintViolated):
            await swallow()
        async with store.snapshot() as work:
            assert await work.jobs.list_newest(limit=10) == ()

    async def test_the_same_events_replayed_give_the_same_books(self, store: Store) -> None:
        async def replay() -> None:
            async with store.transaction() as work:
                await work.jobs.save(a_job(leases=(a_lease(),)))
                await work.checkpoints.add(a_checkpoint(1))
                await work.ledger.post([an_entry("e1", "1"), an_entry("e2", "0.000000001", kind=CostKind.BANDWIDTH)])
                await work.bids.save(BidRecord("b1", "lease-1", START, Decimal(1), "done", None))

        async def books() -> object:
            async with store.snapshot() as work:
                return (
                    await work.jobs.list_open(),
                    await work.ledger.list_entries("lease-1"),
                    await work.bids.list_by_job("job-000001"),
                    await work.ledger.sum_totals(DAY),
                )

        await replay()
        first = await books()
        await replay()
        assert await books() == first


class StoreContract(
    WhatAStoreKeeps,
    WhatAStoreAnswers,
    HowAStoreCountsMoney,
    HowAStoreSumsUpAMarket,
    HowAStoreSumsUpAnOwner,
    WhatAStoreRefuses,
    WhatATransactionIs,
    WhatReconciliationReads,
    WhatAStoreKeepsOfArrays,
    WhatAStoreKeepsOfCertificates,
    WhatAStoreKeepsOfCode,
    WhatAStoreKeepsOfDrift,
    WhatAStoreKeepsOfForecasts,
    WhatAStoreKeepsOfMachines,
    WhatAStoreKeepsOfAnswers,
    WhatAStoreKeepsOfNotices,
    WhatAStoreKeepsOfSchedules,
    WhatAStoreKeepsOfTokens,
    WhatReportsRead,
    WhatAStoreKeepsOfPrices,
    WhatAStoreForgets,
):
    """All of it; a subclass gives the fixture ``store``: empty and open."""
