"""Machines that say why they do not start the job's container: what that means for the machine, and for the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from autopilot.domain import events as e
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import StartCause, fault_of, find_fault, find_telling_line, trim_words
from autopilot.engine.calls import AVOID_AFTER_RELEASE, Avoid
from autopilot.engine.event_log import EventLog
from autopilot.engine.mailbox import Mail
from autopilot.engine.observe import Reading
from autopilot.engine.registry_logins import Logins, login_refused

LASTING_AVOIDED = timedelta(hours=24)
"""So long a job keeps away from a host that cannot run its image."""
GAVE_UP = (Reason.STUCK_LOADING, Reason.AGENT_SILENT)
"""Reasons to give a machine up that say nothing of what it lacks."""
_WIDE = ("pull_failed", "boot_too_slow", "container_refused", "container_exit")
"""Faults of a virtual machine's report of which its words tell more."""
_IS_NOT_UP = (InstanceStatus.PROVISIONING, InstanceStatus.STOPPED)
"""What the market says of a machine that runs is not about its start."""


@dataclass(frozen=True, slots=True)
class _Said:
    lease: Lease
    fault: str
    words: str
    has_ended: bool = False
    """The machine has given up by itself."""


def take_start_faults(
    event_log: EventLog,
    readings: Mapping[str, Reading],
    mail: Mapping[str, Mail],
    logins: Logins,
    avoid: Avoid,
    now: datetime,
    params: Params,
) -> None:
    """A machine whose agent was never heard is given up for a final fault; its cause says what the job does next."""
    job = event_log.job
    said = (*_said_by_hosts(job, mail), *_unsaid(job, mail, now, params), *_said_by_markets(job, readings))
    for each in said:
        if not _is_wanted(event_log.job, each.lease.id):
            continue
        words = trim_words(logins.hide(event_log.job.spec, each.words))
        known = next((start for start in event_log.job.failed_starts if start.lease_id == each.lease.id), None)
        if known is None or known.fault != each.fault or each.has_ended:
            event_log.apply(e.BootFailed(each.lease.id, each.fault, words, now))
        if each.lease.agent.boot == 0 and (each.has_ended or fault_of(each.fault).is_final):
            _give_up(event_log, each, words, logins, avoid, now)


def note_last_words(event_log: EventLog, lease_id: str, readings: Mapping[str, Reading], now: datetime) -> None:
    """Of a machine that is given up unheard: what its market said last, unless a fault is known."""
    lease = next(each for each in event_log.job.leases if each.id == lease_id)
    is_known = any(start.lease_id == lease_id for start in event_log.job.failed_starts)
    if lease.agent.boot > 0 or is_known or (words := _last_words(lease, readings)) == "":
        return
    event_log.apply(e.BootFailed(lease_id, "", words, now))


def _last_words(lease: Lease, readings: Mapping[str, Reading]) -> str:
    reading = readings.get(lease.provider)
    if reading is None:
        return ""
    shown = next((each for each in reading.instances or () if lease.is_of(each)), None)
    return trim_words(reading.start_words.get(lease.id) or (shown.message if shown is not None else ""))


def _is_wanted(job: Job, lease_id: str) -> bool:
    return any(lease.id == lease_id and lease.is_wanted for lease in job.leases)


def _said_by_hosts(job: Job, mail: Mapping[str, Mail]) -> Iterator[_Said]:
    for lease in job.leases:
        report = mail[lease.id].host if lease.id in mail else None
        if report is not None and report.state == "failed" and lease.is_wanted:
            words = find_fault(report.detail) if report.fault in _WIDE else ""
            yield _Said(lease, words or report.fault, report.detail, has_ended=True)


def _unsaid(job: Job, mail: Mapping[str, Mail], now: datetime, params: Params) -> Iterator[_Said]:
    """Of virtual machines that run: they have no network, or do not boot."""
    patience = timedelta(seconds=params.loading.first_word_patience_s(job.silent_starts))
    for lease in job.leases:
        unheard_since = mail[lease.id].unheard_since if lease.id in mail else None
        runs_since = lease.observed.running_since
        if unheard_since is None or runs_since is None or not lease.is_wanted or lease.agent.boot > 0:
            continue
        if now - max(unheard_since, runs_since) >= patience:
            yield _Said(lease, "host_silent", "", has_ended=True)


def _said_by_markets(job: Job, readings: Mapping[str, Reading]) -> Iterator[_Said]:
    for lease in job.leases:
        reading = readings.get(lease.provider)
        if reading is None or not reading.is_fresh or not lease.is_wanted or lease.agent.boot > 0:
            continue
        shown = next((each for each in reading.instances or () if lease.is_of(each)), None)
        if shown is None:
            continue
        of_state = shown.message if shown.status in _IS_NOT_UP and not lease.has_run else ""
        for words in (reading.start_words.get(lease.id, ""), of_state):
            fault, line = find_telling_line(words)
            if fault:
                yield _Said(lease, fault, line)
                break


def _give_up(event_log: EventLog, said: _Said, words: str, logins: Logins, avoid: Avoid, now: datetime) -> None:
    job, lease, cause = event_log.job, said.lease, fault_of(said.fault).cause
    reason = Reason.STUCK_LOADING
    if cause is StartCause.LOGIN:
        reason = Reason.IMAGE_LOGIN_REFUSED
        if not job.certifies:  # it wants to see this, and goes on
            event_log.apply(login_refused(job.spec, lease, words, now))
    elif cause is StartCause.IMAGE and not job.certifies and job.status.wants_capacity and not _has_begun(job):
        reason = Reason.IMAGE_UNUSABLE
        numbers = (("fault", said.fault), ("message", words))
        event_log.apply(e.StatusSet(JobStatus.FAILED, reason, now, numbers))
    else:
        reason = Reason.PULL_LIMIT if cause is StartCause.LIMIT else Reason.STUCK_LOADING
        span = LASTING_AVOIDED if fault_of(said.fault).is_lasting else AVOID_AFTER_RELEASE[Reason.STUCK_LOADING]
        avoid.add(lease, now, span)
    event_log.apply(e.ReleaseRequested(lease.id, reason, now))


def _has_begun(job: Job) -> bool:
    """Its image has started before: it is the host's copy of it that is wrong, or its way to it."""
    return job.checkpoint is not None or job.step > 0 or bool(job.work_done)
