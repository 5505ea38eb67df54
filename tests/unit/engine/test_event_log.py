"""The event log: one line for what changed, none for what did not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from autopilot.domain import events as e
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog, evolve_orphan
from tests.builders import D, a_checkpoint, a_job, a_lease, a_paused_lease, an_intent, at, heartbeat, seen

RUNNING, STOPPED = InstanceStatus.RUNNING, InstanceStatus.STOPPED
PROVISIONING, OFFLINE = InstanceStatus.PROVISIONING, InstanceStatus.OFFLINE
LEASE, PAUSED = a_lease(), a_paused_lease()
SENT = a_lease(state=LeaseState.DESTROY_SENT).stop_billing(at(0))


def logged(job: Job, *events: e.Event) -> list[str]:
    event_log = EventLog(job)
    for event in events:
        event_log.apply(event)
    return [record.name for record in event_log.records]


@pytest.mark.parametrize(
    ("job", "event", "names"),
    [
        (a_job(), e.LeaseIntended(an_intent(), at(0)), ["lease.intended", "job.starting"]),
        (a_job(an_intent()), e.LeaseAcquired("lease-1", "77", at(0)), ["lease.acquired"]),
        (a_job(an_intent()), e.LeaseAcquired("lease-1", "77", at(0), adopted=True), ["lease.adopted"]),
        (a_job(an_intent()), e.LeaseUncertain("lease-1", "timeout", at(0)), ["lease.create_unknown"]),
        (a_job(an_intent()), e.LeaseMissed("lease-1", at(0)), []),
        (
            a_job(an_intent()),
            e.LeaseRefused("lease-1", Reason.REFUSED, "no", None, at(0)),
            ["lease.refused", "job.pending"],
        ),
        (
            a_job(an_intent()),
            e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(0)),
            ["lease.abandoned", "job.pending"],
        ),
        (a_job(LEASE), seen(LEASE, RUNNING, at(30)), []),
        (a_job(LEASE), seen(LEASE, STOPPED, at(30)), ["lease.paused", "job.paused"]),
        (a_job(LEASE), seen(LEASE, OFFLINE, at(30)), ["lease.offline", "job.recovering"]),
        (a_job(PAUSED), seen(PAUSED, STOPPED, at(30)), []),
        (a_job(PAUSED), seen(PAUSED, RUNNING, at(30)), ["lease.resumed", "job.running"]),
        (a_job(SENT), seen(SENT, RUNNING, at(30)), ["lease.destroy_ignored"]),
        (a_job(LEASE), e.LeaseAbsent("lease-1", at(30)), []),
        (a_job(LEASE), e.LeaseGone("lease-1", at(30)), ["lease.gone", "job.pending"]),
        (a_job(PAUSED), e.BidIntended("lease-1", D("0.36"), at(0)), ["bid.intended"]),
        (a_job(PAUSED), e.BidChanged("lease-1", D("0.36"), at(0)), ["bid.changed"]),
        (a_job(PAUSED), e.BidRefused("lease-1", D("0.30"), at(0)), ["bid.refused"]),
        (a_job(PAUSED), e.StartIntended("lease-1", at(0)), ["lease.start_intended"]),
        (a_job(PAUSED), e.StartFailed("lease-1", at(0)), ["lease.start_failed"]),
        (
            a_job(LEASE),
            e.ReleaseRequested("lease-1", Reason.OUTBID, at(0)),
            ["lease.release_requested", "job.pending"],
        ),
        (
            a_job(a_lease(state=LeaseState.DESTROY_REQUESTED)),
            e.DestroySent("lease-1", True, at(0)),
            ["lease.destroy_sent"],
        ),
        (a_job(LEASE), e.StopOrdered("lease-1", Reason.MOVING, at(0)), ["run.stop_ordered"]),
        (a_job(LEASE), e.LeasePromoted("lease-1", Reason.PROMOTED, at(0)), ["lease.promoted"]),
        (a_job(LEASE), heartbeat(LEASE, at(0)), []),
        (a_job(LEASE), heartbeat(LEASE, at(0), "saving"), ["agent.reported"]),
        (a_job(LEASE), heartbeat(LEASE, at(0), boot=2), ["agent.reported"]),
        (a_job(LEASE), e.PermitRenewed("lease-1", 4, at(0)), []),
        (a_job(LEASE), e.CheckpointVerified(a_checkpoint(LEASE), at(0)), ["checkpoint.verified"]),
        (a_job(LEASE), e.RunExited("lease-1", 1, 0, at(0)), ["run.exited", "job.succeeded"]),
        (a_job(LEASE), e.RunExited("lease-1", 1, 1, at(0)), ["run.exited"]),
        (a_job(a_lease(state=LeaseState.GONE)), e.LeaseSettled("lease-1", at(0)), ["lease.settled"]),
        (a_job(), e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, at(0)), ["job.cancelled"]),
        (a_job(), e.StatusSet(JobStatus.PENDING, Reason.SUBMITTED, at(0)), []),
    ],
)  # fmt: skip
def test_each_event_has_its_lines(job: Job, event: e.Event, names: list[str]) -> None:
    assert logged(job, event) == names


def test_lines_tell_time_job_lease_and_numbers() -> None:
    event_log = EventLog(a_job(LEASE))
    event_log.apply(seen(LEASE, STOPPED, at(30)))
    paused, job = event_log.records
    assert (paused.at, paused.job_id, paused.lease_id) == (at(30), "job-1", "lease-1")
    assert dict(paused.fields) == {"cause": Reason.UNKNOWN, "bid": D("0.300"), "price_to_win": None}
    assert (job.lease_id, dict(job.fields)) == (None, {"reason": Reason.UNKNOWN, "from": JobStatus.RUNNING})


def first_run(observed_storage_rate: str) -> list[str]:
    intent = an_intent()
    loading = seen(intent, PROVISIONING, at(30), storage_rate=D(observed_storage_rate))
    started = seen(intent, RUNNING, at(60), storage_rate=D(observed_storage_rate))
    return logged(a_job(intent), e.LeaseAcquired("lease-1", "instance-of-lease-1", at(1)), loading, started)


def test_the_first_run_is_no_resumption() -> None:
    assert first_run("0.004") == ["lease.acquired", "lease.running"]


def test_nor_is_it_when_the_market_rounds_its_disk_price_otherwise() -> None:
    assert first_run("0.0041") == ["lease.acquired", "lease.running"]


def test_changed_says_whether_there_is_anything_to_save() -> None:
    event_log = EventLog(a_job(LEASE))
    assert not event_log.changed
    event_log.apply(e.StatusSet(event_log.job.status, event_log.job.reason, at(0)))
    assert not event_log.changed
    event_log.apply(e.PermitRenewed("lease-1", 1, at(0)))
    assert event_log.changed


def test_a_stray_has_lines_without_a_job() -> None:
    lease, records = evolve_orphan(
        an_intent(job_id=None, state=LeaseState.ABANDONED), e.InstanceFound("lease-1", "7", at(0))
    )
    assert lease.state is LeaseState.DESTROY_REQUESTED
    assert [(record.name, record.job_id, record.lease_id) for record in records] == [
        ("lease.instance_found", None, "lease-1")
    ]


def test_work_that_a_loss_throws_away_is_recorded() -> None:
    checkpoint = a_checkpoint(LEASE, 0, work_done=timedelta(minutes=30))
    job = a_job(LEASE, checkpoint=checkpoint, work_done=timedelta(minutes=41))
    event_log = EventLog(job)
    event_log.apply(seen(LEASE, STOPPED, at(30)))
    lost = next(record for record in event_log.records if record.name == "work.lost")
    assert (lost.lease_id, lost.fields) == (LEASE.id, (("seconds", 660),))


def test_the_last_heartbeat_of_a_stopped_machine_is_no_news() -> None:
    stale = heartbeat(LEASE, at(0))
    job = a_job(a_paused_lease(agent_seq=stale.seq, agent_state=""))
    assert logged(job, stale, stale) == []
