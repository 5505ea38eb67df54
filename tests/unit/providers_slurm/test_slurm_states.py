"""States and reasons of jobs, and what they are as machines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from autopilot.domain.instance import InstanceStatus, Stopper
from autopilot.domain.offer import OfferQuery
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import NO_EVIDENCE, name_cause
from autopilot.providers.slurm import mapping
from autopilot.providers.slurm.config import PartitionSettings
from autopilot.providers.slurm.states import ENDS, PHASES, Phase, phase_of, tell_end, tell_wait
from autopilot.providers.slurm.wire import SeenEnd, SeenJob, SeenLease, SeenPartition
from tests.builders import a_lease

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
JOB = SeenJob("7", "1000", "ap1.x.1", "RUNNING", "None", "low", NOW, NOW + timedelta(hours=1), "gpu01")
LEASE = SeenLease("ap1.x.1", "7", "RTX 4090", 1, Decimal(0), "low", begun=1, notice="", ended="")
SETTINGS = PartitionSettings(gpu="RTX 4090", vram_gb=Decimal(24))
SEEN = SeenPartition(True, 1, {"gpu": 4}, 3600, 60, True)
QUERY = OfferQuery((("RTX 4090", 1), ("RTX 4090", 8)), Decimal(20), Decimal(40), False, False)


def test_every_end_is_an_end() -> None:
    assert {state for state, phase in PHASES.items() if phase is Phase.OVER} == set(ENDS)
    assert phase_of("SOMETHING_NEW") is Phase.RUNS


def waiting(reason: str, **lease: object) -> mapping.SeenStatus:
    job = replace(JOB, state="PENDING", reason=reason, starts_at=None)
    return mapping.status_of_job(job, replace(LEASE, **lease))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "jobs of a higher priority come first (Priority)"),
        ("QOSMaxJobsPerUserLimit", "you run as many jobs as the QOS gives you (QOSMaxJobsPerUserLimit)"),
        ("AssocGrpGRESMinutes", "the account's GPU minutes are used up (AssocGrpGRESMinutes)"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu01", "are down or reserved (ReqNodeNotAvail, UnavailableNodes:gpu01)"),
        ("None", "the scheduler has not looked at it yet"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_a_job_that_waits_says_why(reason: str, words: str) -> None:
    found = waiting(reason, begun=0)
    assert (found.status, found.stopper) == (InstanceStatus.PROVISIONING, None)
    assert found.message.startswith("waits in the queue: ")
    assert found.message.endswith(words)
    assert tell_wait(reason).endswith(words)


def test_a_job_that_waits_says_when_it_is_thought_to_start() -> None:
    job = replace(JOB, state="PENDING", reason="Resources")
    assert mapping.status_of_job(job, replace(LEASE, begun=0)).message.endswith("start at 2026-11-29 12:00 UTC")


@pytest.mark.parametrize(
    ("reason", "lease", "stopper"),
    [
        ("BeginTime", {"notice": "preempt"}, Stopper.BIDDER),
        ("BeginTime", {"notice": "killed"}, Stopper.BIDDER),
        ("BeginTime", {}, None),
        ("JobHeldUser", {}, Stopper.USER),
        ("job requeued in held state", {}, Stopper.USER),
        ("JobHeldAdmin", {}, Stopper.HOST),
        ("launch failed requeued held", {"begun": 0}, Stopper.HOST),
    ],
)
def test_a_job_that_has_run_and_waits_is_a_stopped_machine(
    reason: str, lease: dict[str, object], stopper: Stopper | None
) -> None:
    found = waiting(reason, **lease)
    assert (found.status, found.stopper) == (InstanceStatus.STOPPED, stopper)
    assert found.intended_running == (stopper is not Stopper.USER)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("PREEMPTED", Reason.DISPLACED),
        ("NODE_FAIL", Reason.HOST_LOST),
        ("OUT_OF_MEMORY", Reason.HOST_LOST),
        ("BOOT_FAIL", Reason.HOST_LOST),
        ("CANCELLED", Reason.CONSOLE),
        ("TIMEOUT", Reason.EXPIRING),
    ],
)
def test_the_end_of_a_job_is_a_cause(state: str, reason: Reason) -> None:
    job = replace(JOB, state=state, ends_at=NOW)
    shown = mapping.instance("7", job, LEASE, mapping.status_of_end(job, LEASE, None), {"low": SETTINGS})
    later = NOW - timedelta(seconds=1) if state != "TIMEOUT" else NOW
    assert name_cause(a_lease(), shown, NO_EVIDENCE, later) is reason


def test_the_accounting_knows_more_than_the_queue() -> None:
    end = SeenEnd("CANCELLED", "1000", NOW)
    found = mapping.status_of_end(None, LEASE, end)
    assert (found.stopper, found.message) == (Stopper.USER, "the job was cancelled by 1000")
    assert "does not say why" in mapping.status_of_end(None, LEASE, None).message
    assert tell_end("NEW_END") == (None, "the job is NEW_END")


@pytest.mark.parametrize(("ended", "stopper"), [("limit", None), ("preempt", Stopper.BIDDER)])
def test_a_script_that_ended_by_itself_says_why(ended: str, stopper: Stopper | None) -> None:
    job = replace(JOB, state="COMPLETED")
    found = mapping.status_of_end(job, replace(LEASE, ended=ended), None)
    assert (found.status, found.stopper) == (InstanceStatus.STOPPED, stopper)
    cancelled = mapping.status_of_end(replace(JOB, state="CANCELLED"), replace(LEASE, ended=ended), None)
    assert cancelled.stopper is Stopper.USER


def test_a_job_on_its_way_out_is_still_a_machine() -> None:
    found = mapping.status_of_job(replace(JOB, state="COMPLETING"), None)
    assert (found.status, found.intended_running) == (InstanceStatus.RUNNING, False)
    suspended = mapping.status_of_job(replace(JOB, state="SUSPENDED"), LEASE)
    assert (suspended.status, suspended.stopper) == (InstanceStatus.STOPPED, Stopper.BIDDER)
    assert mapping.status_of_job(replace(JOB, state="CONFIGURING"), LEASE).status is InstanceStatus.PROVISIONING


def offers(settings: PartitionSettings = SETTINGS, held: int = 0, seen: SeenPartition = SEEN, disk: int = 50) -> int:
    return len(list(mapping.offers({"low": settings}, {"low": seen}, {"low": held}, (), Decimal(disk), QUERY, NOW)))


def test_a_partition_is_offered_while_there_is_room_in_it() -> None:
    assert offers() == 1
    (offer,) = mapping.offers({"low": SETTINGS}, {"low": SEEN}, {}, (), Decimal(50), QUERY, NOW)
    assert (offer.on_demand_price, offer.floor) == (Decimal(0), None)
    assert offer.ends_at == NOW + timedelta(hours=1)
    assert offer.location == "low, may be preempted"
    assert offers(held=SETTINGS.jobs) == 0
    assert not list(mapping.offers({"low": SETTINGS}, {"low": SEEN}, {}, {"low"}, Decimal(50), QUERY, NOW))
    assert offers(seen=replace(SEEN, is_up=False)) == 0
    assert offers(seen=replace(SEEN, gres={"gpu": 8})) == 2
    assert offers(disk=39) == 0
    assert offers(PartitionSettings(gpu="A100", vram_gb=Decimal(80))) == 0
    assert offers(PartitionSettings(gpu="RTX 4090", vram_gb=Decimal(16))) == 0


def test_the_shorter_of_two_limits_counts() -> None:
    short = PartitionSettings(gpu="RTX 4090", vram_gb=Decimal(24), time="00:30:00")
    assert mapping.limit_of(short, SEEN) == 1800
    assert mapping.limit_of(SETTINGS, SEEN) == 3600
    assert mapping.limit_of(SETTINGS, replace(SEEN, limit_s=None)) is None


@pytest.mark.parametrize("identifier", ["low", "low/", "low/0", "low/x", "/" + "9" * 30])
def test_what_is_no_offer_is_refused(identifier: str) -> None:
    with pytest.raises(ValueError, match="not an offer"):
        mapping.parts_of_offer(identifier)
