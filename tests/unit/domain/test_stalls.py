"""A command of which nothing is new: when that is said, and when no longer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.readings import Readings
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from tests.builders import START, a_job, a_lease, at, heartbeat, lease_of, play, seen

MINUTE = 60
LEASE = a_lease()


def beat(minute: float, still_minutes: float | None, state: str = "running", **changes: Any) -> e.HeartbeatSeen:
    """``still_minutes`` None: its GPUs could not be read."""
    still_s = None if still_minutes is None else still_minutes * MINUTE
    return heartbeat(LEASE, at(minute * MINUTE), state, readings=Readings(still_s=still_s), **changes)


def logged(job: Job, *events: e.Event) -> tuple[Job, list[tuple[str, dict[str, Any]]]]:
    event_log = EventLog(job)
    for event in events:
        event_log.apply(event)
    runs = [record for record in event_log.records if record.name.startswith("run.")]
    return event_log.job, [(record.name, dict(record.fields)) for record in runs]


def test_a_stall_is_said_once_and_so_is_its_end() -> None:
    job, said = logged(a_job(LEASE), *(beat(minute, minute - 10) for minute in (11, 39.9, 40, 41, 70)))
    stalled = ("run.stalled", {"since": at(10 * MINUTE).isoformat()})
    assert said == [stalled]
    assert (job.status, job.reason) == (JobStatus.RUNNING, Reason.STALLED)
    assert lease_of(job).agent.stalled_since == at(10 * MINUTE)

    job, said = logged(job, beat(80, 0.5), beat(81, 1.5))
    assert said == [("run.went_on", {"still_s": 70 * MINUTE})]
    assert (job.status, job.reason, lease_of(job).agent.stalled_since) == (JobStatus.RUNNING, Reason.WORKING, None)
    _, said = logged(job, beat(120, 40))
    assert said == [("run.stalled", {"since": at(80 * MINUTE).isoformat()})], "the next one is another"


def test_an_unknown_state_neither_starts_a_stall_nor_ends_one() -> None:
    job, said = logged(a_job(LEASE), beat(40, None), beat(80, None))
    assert (said, job.reason) == ([], Reason.WORKING)
    job, said = logged(job, beat(81, 31), beat(82, None), heartbeat(LEASE, at(83 * MINUTE)), beat(84, 33))
    assert [name for name, _ in said] == ["run.stalled"]
    assert job.reason is Reason.STALLED


def test_an_agent_of_the_version_before_sends_no_readings() -> None:
    job = play(a_job(LEASE), heartbeat(LEASE, at(60 * MINUTE)))
    assert (lease_of(job).agent.readings, job.reason) == (None, Reason.WORKING)


@pytest.mark.parametrize(
    "event",
    [
        beat(50, None, "finished"),
        beat(50, None, "saving"),
        beat(50, None, "restoring", boot=2, seq=1),
        beat(50, None, boot=2, seq=1),
        beat(50, 1, boot=2, seq=1),
    ],
)
def test_a_run_that_ends_or_restarts_has_made_no_progress(event: e.Event) -> None:
    job, said = logged(a_job(LEASE), beat(45, 40), event)
    assert [name for name, _ in said] == ["run.stalled"]
    assert lease_of(job).agent.stalled_since is None
    assert job.reason is not Reason.STALLED


def test_another_run_on_the_same_machine_has_not_stalled() -> None:
    job = play(a_job(a_lease(can_run_again=True)), beat(45, 40, can_run_again=True))
    job = play(
        job, e.RunExited("lease-1", 1, 1, at(46 * MINUTE)), e.RunOrdered("lease-1", Reason.RETRY, at(46 * MINUTE))
    )
    assert lease_of(job).agent.stalled_since is None


def test_a_machine_cannot_have_been_still_before_it_ran() -> None:
    job, said = logged(a_job(LEASE), beat(20, 5000))
    assert (said, job.reason) == ([], Reason.WORKING)
    _, said = logged(job, beat(35, 5000))
    assert said == [("run.stalled", {"since": START.isoformat()})]


def test_a_machine_that_was_offline_for_a_moment_is_still_in_its_stall() -> None:
    job = play(a_job(LEASE), beat(45, 40))
    held = lease_of(job)
    offline = seen(held, InstanceStatus.OFFLINE, at(46 * MINUTE))
    back = seen(held, InstanceStatus.RUNNING, at(47 * MINUTE))
    job, said = logged(job, offline, back, beat(48, 43))
    assert said == []
    assert (job.reason, lease_of(job).agent.stalled_since) == (Reason.STALLED, START + timedelta(minutes=5))


def test_a_stall_that_begins_with_news_of_the_agent_is_told_beside_them() -> None:
    """The daemon was away meanwhile."""
    event_log = EventLog(a_job(a_lease(agent_state="waiting")))
    event_log.apply(beat(60, 45))
    assert [record.name for record in event_log.records] == ["agent.reported", "run.stalled", "job.running"]
