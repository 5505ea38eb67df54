"""When a job that waits for others may begin, when it never will, and what the ledger is asked for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.domain import events as e
from autopilot.domain.after import After, On
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.engine.predecessors import judge, judge_waiting, look_for_outputs
from autopilot.mailbox.keys import verified_outputs_key
from autopilot.mailbox.report_shapes import Manifest, Part
from autopilot.ports.store.jobs import JobTitle
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import START, a_spec
from tests.builders import a_job as a_built_job

LATER = START + timedelta(hours=3)
NOW = START + timedelta(hours=5)
MANIFEST = Manifest(1, 1, (Part("a/out/1/part-0", 3, "0" * 64),)).to_json()


def a_job(name: str, *after: After, **changes: Any) -> Job:
    spec = a_spec(name=name, after=after, **changes.pop("spec", {}))
    reason = Reason.WAITING_FOR_JOBS if after else Reason.SUBMITTED
    return replace(a_built_job(spec=spec, reason=reason), id=name, **changes)


def title(status: JobStatus, finished_at: datetime | None = LATER) -> JobTitle:
    return JobTitle("prepare", 0, status, finished_at if status.is_final else None)


@pytest.mark.parametrize(
    ("on", "status", "reason"),
    [
        (On.OK, JobStatus.SUCCEEDED, Reason.SUBMITTED),
        (On.OK, JobStatus.FAILED, Reason.DEPENDENCY_FAILED),
        (On.OK, JobStatus.CANCELLED, Reason.DEPENDENCY_FAILED),
        (On.FAIL, JobStatus.SUCCEEDED, Reason.DEPENDENCY_FAILED),
        (On.FAIL, JobStatus.FAILED, Reason.SUBMITTED),
        (On.FAIL, JobStatus.CANCELLED, Reason.SUBMITTED),
        *((On.ANY, status, Reason.SUBMITTED) for status in JobStatus if status.is_final),
        *(
            (on, status, Reason.WAITING_FOR_JOBS)
            for on in (On.OK, On.FAIL, On.ANY)
            for status in JobStatus
            if not status.is_final
        ),
    ],
)
def test_what_an_end_means(on: On, status: JobStatus, reason: Reason) -> None:
    event_log = EventLog(a_job("train", After("prepare", on)))
    event = judge(event_log.job, {"prepare": title(status)}, NOW)
    if event is not None:
        event_log.apply(event)
    assert event_log.job.reason is reason
    assert event_log.job.waits_for_jobs is (reason is Reason.WAITING_FOR_JOBS)
    assert event_log.job.status is (JobStatus.FAILED if reason is Reason.DEPENDENCY_FAILED else JobStatus.PENDING)


def test_the_deadline_counts_from_the_last_end_and_not_from_when_it_was_seen() -> None:
    job = a_job("train", After("a"), After("b", On.ANY), spec={"due_within": timedelta(hours=6)})
    known = {"a": title(JobStatus.SUCCEEDED), "b": title(JobStatus.CANCELLED, START + timedelta(hours=1))}
    event_log = EventLog(job)
    event = judge(job, known, NOW)
    assert event == e.PredecessorsEnded(LATER, NOW)
    event_log.apply(e.PredecessorsEnded(LATER, NOW))
    assert (event_log.job.spec.deadline, event_log.job.spec.due_within) == (LATER + timedelta(hours=6), None)
    assert [(each.name, dict(each.fields)) for each in event_log.records] == [
        ("job.predecessors_ended", {"deadline": (LATER + timedelta(hours=6)).isoformat()})
    ]


def test_a_deadline_counts_from_the_submit_where_all_had_ended_before() -> None:
    job = a_job("train", After("prepare"), submitted_at=NOW)
    assert judge(job, {"prepare": title(JobStatus.SUCCEEDED)}, NOW) == e.PredecessorsEnded(NOW, NOW)


def test_one_that_is_open_holds_it_up_and_one_that_went_wrong_ends_it_at_once() -> None:
    job = a_job("train", After("a"), After("b"))
    known = {"a": title(JobStatus.SUCCEEDED), "b": title(JobStatus.PARKED)}
    assert judge(job, known, NOW) is None
    failed = judge(job, {"a": title(JobStatus.PARKED), "b": title(JobStatus.FAILED)}, NOW)
    assert isinstance(failed, e.StatusSet)
    assert dict(failed.numbers) == {"job": "prepare", "ended": JobStatus.FAILED}


def test_a_job_begins_once_the_store_is_known_to_have_what_it_takes() -> None:
    job = a_job("train", After("prepare"), spec={"inputs": (("data", "job:prepare/out"), ("x", "https://h/x"))})
    known = {"prepare": title(JobStatus.SUCCEEDED)}
    assert judge(job, known, NOW) is None, "nobody has looked"
    assert isinstance(judge(job, known, NOW, {"prepare": True}), e.PredecessorsEnded)
    failed = judge(job, known, NOW, {"prepare": False})
    assert isinstance(failed, e.StatusSet)
    assert (failed.status, failed.reason) == (JobStatus.FAILED, Reason.DEPENDENCY_FAILED)
    assert dict(failed.numbers) == {"job": "prepare", "ended": "over without outputs"}
    assert judge(job, {"prepare": title(JobStatus.RUNNING)}, NOW, {"prepare": True}) is None


async def test_the_store_is_asked_for_what_those_that_wait_take_of_jobs_that_are_over(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path, b"k" * 32, "http://127.0.0.1:1")
    await blobs.put(verified_outputs_key("left"), MANIFEST)
    taking = {"spec": {"inputs": tuple((name, f"job:{name}/out") for name in ("left", "bare", "open"))}}
    waits = a_job("train", *map(After, ("left", "bare", "open")), **taking)
    begun = replace(a_job("begun", spec={"inputs": (("x", "job:other/out"),)}), reason=Reason.SUBMITTED)
    assert await look_for_outputs(blobs, [waits, begun, a_job("open")]) == {"left": True, "bare": False}
    for name in ("left", "bare", "open"):
        path = blobs.path(verified_outputs_key(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(path)  # the disk answers with an error, not with "there is none"
    assert await look_for_outputs(blobs, [waits]) == {}


async def judged(*jobs: Job, ended: tuple[Job, ...] = ()) -> dict[str, EventLog]:
    store = MemoryStore()
    async with store.transaction() as work:
        await work.jobs.save_all((*jobs, *ended))
        event_logs = [EventLog(job) for job in jobs]
        await judge_waiting(work, event_logs, NOW)
    return {each.job.id: each for each in event_logs}


async def test_a_failure_goes_down_the_line_and_past_those_that_want_it() -> None:
    over = a_job("first", status=JobStatus.FAILED, finished_at=LATER)
    logs = await judged(
        a_job("fourth", After("third")),
        a_job("third", After("second")),
        a_job("second", After("first")),
        a_job("clean-up", After("third", On.FAIL)),
        a_job("other"),
        ended=(over,),
    )
    reasons = {name: log.job.reason for name, log in logs.items()}
    assert reasons == {
        "second": Reason.DEPENDENCY_FAILED,
        "third": Reason.DEPENDENCY_FAILED,
        "fourth": Reason.DEPENDENCY_FAILED,
        "clean-up": Reason.SUBMITTED,
        "other": Reason.SUBMITTED,
    }
    (record,) = logs["third"].records
    assert (record.name, dict(record.fields)["job"]) == ("job.failed", "second")


async def test_what_this_tick_finds_does_not_count_before_it_is_committed() -> None:
    running = a_job("first", status=JobStatus.RUNNING)
    store = MemoryStore()
    async with store.transaction() as work:
        first, second = EventLog(running), EventLog(a_job("second", After("first")))
        await work.jobs.save_all((running, second.job))
        first.apply(e.StatusSet(JobStatus.SUCCEEDED, Reason.COMPLETED, NOW))
        await judge_waiting(work, [first, second], NOW)
        assert second.job.waits_for_jobs
        await work.jobs.save(first.job)
        await judge_waiting(work, [second], NOW)
        assert not second.job.waits_for_jobs
    assert [record.name for record in second.records] == ["job.predecessors_ended"]


async def test_parked_by_its_user_it_stays_so_and_knows_when_they_ended() -> None:
    parked = a_job("train", After("prepare"), status=JobStatus.PARKED, reason=Reason.USER_STOPPED)
    logs = await judged(parked, ended=(a_job("prepare", status=JobStatus.SUCCEEDED, finished_at=LATER),))
    job = logs["train"].job
    assert (job.status, job.reason, job.predecessors_ended_at) == (JobStatus.PARKED, Reason.USER_STOPPED, LATER)


async def test_without_a_job_that_waits_the_ledger_is_not_asked() -> None:
    nothing: Any = None
    await judge_waiting(nothing, [EventLog(a_job("train"))], NOW)
