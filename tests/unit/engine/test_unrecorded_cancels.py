"""A cancel that the ledger could not take, of a job that has failed and holds its machine."""

from __future__ import annotations

from datetime import timedelta

from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.engine.unrecorded_cancels import UnrecordedCancels
from tests.builders import START, a_job, a_lease


def test_it_gives_the_held_machine_back_and_is_then_forgotten() -> None:
    lease = a_lease(exit_code=1, held_until=START + timedelta(hours=1))
    failed = a_job(lease, status=JobStatus.FAILED, reason=Reason.COMMAND_FAILED, finished_at=START)
    cancels = UnrecordedCancels()
    cancels.add(failed.id)
    cancels.forget_recorded([failed])
    event_log = EventLog(failed)
    cancels.apply(event_log, START)
    assert event_log.job.status is JobStatus.FAILED
    assert event_log.job.on_hold is None
    assert event_log.job.leases[0].reason is Reason.USER_RELEASED
    cancels.forget_recorded([event_log.job])
    later = EventLog(failed)
    cancels.apply(later, START)
    assert later.job is failed
