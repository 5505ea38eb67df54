"""The daemon's note of a machine in the store: exact, by name of each field, and of one job alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState, Span
from autopilot.engine.rental_notes import RentalNotes, find_note, read_note, to_note
from autopilot.mailbox.keys import parse_manifest_key, parse_rental_key, rental_key
from tests.builders import START, a_job, a_lease
from tests.memory_blobs import MemoryBlobs


def a_rented() -> Lease:
    spans = (
        Span(InstanceStatus.RUNNING, Decimal("0.306000001"), Decimal("0.01"), START, START + timedelta(hours=1)),
        Span(InstanceStatus.STOPPED, Decimal(0), Decimal("0.01"), START + timedelta(hours=1), is_observed=False),
    )
    return replace(a_lease(), spans=spans)


def test_a_note_says_the_lease_exactly_but_for_its_decision_and_its_readings() -> None:
    lease = a_rented()
    assert lease.job_id is not None
    assert read_note(to_note(lease.job_id, lease), lease.job_id, lease.id) == replace(lease, decision_id=None)


def test_a_note_of_another_version_is_read_by_name() -> None:
    lease = a_rented()
    body = json.loads(to_note(lease.job_id or "", lease))
    body["lease"]["of_the_next_version"] = 1
    body["lease"]["traffic"]["of_the_next_version"] = 1
    del body["lease"]["held_until"], body["lease"]["bidding"]
    found = read_note(json.dumps(body).encode(), lease.job_id or "", lease.id)
    assert found is not None
    assert found.spans == lease.spans


def test_a_note_of_another_job_or_machine_is_none() -> None:
    lease = a_rented()
    note = to_note(lease.job_id or "", lease)
    assert read_note(note, "another", lease.id) is None
    assert read_note(note, lease.job_id or "", "another") is None
    for junk in (b"", b"{", b"[]", b"null", b'{"v": 1}', b'{"v": 1, "job": "j", "lease": 3}', note[:-3]):
        assert read_note(junk, lease.job_id or "", lease.id) is None


def the_job(lease: Lease) -> Job:
    return replace(a_job(), id=lease.job_id or "", leases=(lease,))


async def test_it_is_written_when_it_changes_and_its_run_epoch_never_goes_back() -> None:
    blobs, lease = MemoryBlobs(), a_rented()
    lease = replace(lease, orders=replace(lease.orders, run_epoch=5))
    key = rental_key(lease.job_id or "", lease.id)
    await RentalNotes(blobs).keep([the_job(lease)])
    older = replace(lease, orders=replace(lease.orders, run_epoch=2))
    notes = RentalNotes(blobs)  # of a daemon whose ledger was put back
    await notes.keep([the_job(older)])
    found = await find_note(blobs, lease.job_id or "", lease.id)
    assert found is not None
    assert found.orders.run_epoch == 5
    del blobs.kept[key]
    await notes.keep([the_job(older)])
    assert key not in blobs.kept, "nothing has changed"
    gone = older.move(LeaseState.GONE)
    await notes.keep([the_job(gone)])
    found = await find_note(blobs, lease.job_id or "", lease.id)
    assert found is not None
    assert (found.state, found.orders.run_epoch) == (LeaseState.GONE, 5)


def test_keys_tell_whose_they_are() -> None:
    job, lease = "01KDVDNRY4R11887CN5CG1S8J6", "01KDVDNRY4R11887CN5CG1S8J7"
    assert parse_rental_key(job, rental_key(job, lease)) == lease
    assert parse_rental_key("another", rental_key(job, lease)) is None
    assert parse_manifest_key(job, f"jobs/{job}/{lease}/ckpt/7/manifest.json") == (lease, 7, False)
    assert parse_manifest_key(job, f"jobs/{job}/verified/{lease}.7.json") == (lease, 7, True)
    for key in (f"jobs/{job}/verified/outputs.json", f"jobs/{job}/{lease}/ckpt/7/part-0", rental_key(job, lease)):
        assert parse_manifest_key(job, key) is None
