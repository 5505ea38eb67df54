"""Machines that lack what was rented, kills for memory, and runs that last too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, Action, Release, SaveAndStop, SetStatus
from autopilot.domain.arrival import Arrival, ArrivalFinding, ArrivalGpu, Rented, find_lacks, find_warnings
from autopilot.domain.host import HostFacts, HostNeeds
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, Role
from autopilot.domain.market import Market
from autopilot.domain.params import Params
from autopilot.domain.readings import Readings
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from tests.builders import D, a_job, a_lease, a_market, a_new_home, a_spec, an_offer, at, lease_of, play
from tests.leases import change_lease

P = Params().tune({"least_stretch": 1.0})
GB, GIB = 10**9, 1 << 30
SOUND = ArrivalGpu(used=GIB // 4, total=24 * GIB)
TWO = Rented(num_gpus=2, disk_gb=D(100), ram_gb=D(64))


def acts(job: Job, market: Market | None = None, now: float = 60) -> tuple[Action, ...]:
    return decide(job, market or a_market(an_offer()), at(now), P).actions


@pytest.mark.parametrize(
    ("arrival", "lacks"),
    [
        (Arrival(), ()),
        (Arrival(gpus=(SOUND, SOUND), ram=62 * GB, disk_free=90 * GB), ()),
        (Arrival(gpus=(SOUND,)), (ArrivalFinding("gpus", 1, 2),)),
        (Arrival(gpu_fault="nvidia-smi hangs"), (ArrivalFinding("gpu_fault", "nvidia-smi hangs"),)),
        (Arrival(gpus=(SOUND, ArrivalGpu(6 * GIB, 24 * GIB))), (ArrivalFinding("gpu_memory", 0.25, 0.1),)),
        (Arrival(gpus=(SOUND, ArrivalGpu(errors=2))), (ArrivalFinding("gpu_errors", 2, 0),)),
        (Arrival(gpus=(SOUND, ArrivalGpu(slowed=True))), (ArrivalFinding("throttled", 1, 0),)),
        (Arrival(all_reduce="failed"), (ArrivalFinding("all_reduce"),)),
        (Arrival(ram=16 * GB), (ArrivalFinding("ram", 16.0, 64.0),)),
        (Arrival(disk_free=4 * GB), (ArrivalFinding("disk", 4.0, 10.0),)),
        (Arrival(disk_fault="Read-only file system"), (ArrivalFinding("disk", "Read-only file system"),)),
        (Arrival(unreachable=("huggingface.co", "example.com")), (ArrivalFinding("unreachable", "huggingface.co"),)),
    ],
)
def test_what_a_machine_lacks(arrival: Arrival, lacks: tuple[ArrivalFinding, ...]) -> None:
    assert find_lacks(arrival, TWO) == lacks


def test_there_must_be_room_for_two_checkpoints() -> None:
    assert find_lacks(Arrival(disk_free=4 * GB), replace(TWO, checkpoint_bytes=2 * GB)) == ()
    assert find_lacks(Arrival(disk_free=4 * GB), replace(TWO, checkpoint_bytes=3 * GB)) == (
        ArrivalFinding("disk", 4.0, 6.0),
    )


def test_what_is_only_said() -> None:
    slow = Arrival(disk_mb_per_s=12, upload_mbps=3, download_mbps=900, clock_off_s=-90, shm=64 << 20)
    found = find_warnings(replace(slow, all_reduce="without_peer", unreachable=("example.com",)), TWO)
    assert [each.kind for each in found] == [
        *("slow_disk", "slow_upload", "clock", "small_shm", "without_peer", "unreachable_other")
    ]
    assert find_lacks(slow, TWO) == ()


def arrived(lease: Lease, arrival: Arrival, seq: int = 9, now: float = 30) -> e.HeartbeatSeen:
    return e.HeartbeatSeen(
        lease.id,
        boot=1,
        seq=seq,
        agent_state="setting_up",  # type: ignore[arg-type]
        step=None,
        progress=None,
        last_checkpoint_number=None,
        log_count=0,
        saved=False,
        at=at(now),
        readings=Readings(arrival=arrival),
    )


UNFIT = Arrival(gpus=())
LEFT = Release("lease-1", Reason.HOST_UNFIT)


def a_new_lease(id: str = "lease-1", **changes: Any) -> Lease:
    return a_lease(id, agent_state="", agent_boot=0, **changes)


def test_a_machine_that_lacks_what_was_rented_is_left_at_once_and_no_attempt_is_used_up() -> None:
    job = play(a_job(a_new_lease()), arrived(a_new_lease(), UNFIT))
    assert acts(job) == (LEFT,)
    job = play(job, e.ReleaseRequested("lease-1", Reason.HOST_UNFIT, at(60)))
    assert (job.fruitless, job.failures, job.left_for) == (0, 0, ("gpus",))


def test_one_that_works_for_long_is_not_left() -> None:
    job = play(a_job(a_new_lease()), arrived(a_new_lease(), UNFIT))
    assert acts(job, now=29 + 300) == (LEFT,)
    assert LEFT not in acts(job, now=31 + 300)


@pytest.mark.parametrize(
    ("left_for", "array_id", "is_left"),
    [
        (("gpus", "gpus"), None, True),
        (("gpus",) * 3, None, False),
        (("ram",) * 3, None, True),
        (("ram", "disk") * 3, None, False),
        (("gpus",), "array", False),
    ],
)
def test_it_is_bounded(left_for: tuple[str, ...], array_id: str | None, is_left: bool) -> None:
    lease = a_new_lease()
    job = a_job(change_lease(lease, agent_state="setting_up"), left_for=left_for, array_id=array_id)
    job = replace(job, leases=(change_lease(job.leases[0], readings=Readings(arrival=UNFIT)),))
    assert (LEFT in acts(job)) is is_left


def test_a_machine_without_the_finding_ends_the_count() -> None:
    job = a_job(a_new_lease(), left_for=("gpus", "ram", "gpus"))
    job = play(job, arrived(a_new_lease(), Arrival(gpus=(SOUND,), ram=1 * GB)))
    assert job.left_for == (), "what its market did not say of the memory is no lack"


def test_an_unfit_new_home_is_dropped() -> None:
    new = change_lease(a_new_home(agent_state="setting_up"), readings=Readings(arrival=UNFIT))
    assert acts(a_job(a_lease(), new)) == (Release("lease-2", Reason.HOST_UNFIT),)


# -- memory

KILLED = e.RunExited("lease-1", 1, 137, at(60), is_of_host=True, memory=(63 * GB, 64 * GB))


def killed(**changes: Any) -> Job:
    spec = a_spec(host=HostNeeds(ram_gb=D(32)), max_attempts=3)
    return play(a_job(a_lease(can_run_again=True, **changes), spec=spec), KILLED)


def test_after_a_kill_for_memory_more_is_asked_for_and_not_on_the_same_machine() -> None:
    job = killed()
    assert (job.spec.host.ram_gb, job.failures, job.status) == (D(80), 1, JobStatus.RUNNING)
    assert acts(job) == (Release("lease-1", Reason.OUT_OF_MEMORY),)


def test_a_machine_is_not_believed_to_have_had_more_than_was_rented() -> None:
    assert killed(ram_gb=D(40)).spec.host.ram_gb == D(55)


def given_back(job: Job) -> Job:
    return replace(job, leases=())


@pytest.mark.parametrize(
    ("ram_gb", "gpu", "is_taken"),
    [(D(96), "RTX 4090", True), (D(64), "RTX 4090", False), (None, "RTX 4090", False)],
)
def test_never_the_same_size_again(ram_gb: Any, gpu: str, is_taken: bool) -> None:
    job = given_back(killed())
    market = a_market(an_offer("next", gpu=gpu, host=HostFacts(ram_gb=ram_gb)))
    assert bool([act for act in acts(job, market, now=120) if isinstance(act, Acquire)]) is is_taken
    ended = acts(job, market, now=60 + 1800)
    failed = [act for act in ended if isinstance(act, SetStatus)]
    assert [(act.status, act.reason) for act in failed] == (
        [] if is_taken else [(JobStatus.FAILED, Reason.OUT_OF_MEMORY)]
    )


def test_the_last_attempt_that_is_killed_for_memory_says_so() -> None:
    job = play(a_job(a_lease(), spec=a_spec(max_attempts=1)), KILLED)
    assert (job.status, job.reason) == (JobStatus.FAILED, Reason.OUT_OF_MEMORY)


# -- how long a run may last


def test_a_run_that_lasts_too_long_is_saved_and_ended() -> None:
    job = a_job(
        a_lease(working_since=at(0), agent_seen_at=at(7200), last_seen_at=at(7200)),
        spec=a_spec(max_duration=timedelta(hours=2)),
    )
    assert not acts(job, a_market(), now=7199)
    assert acts(job, now=7200) == (SaveAndStop("lease-1", Reason.OVER_DURATION),)
    job = play(job, e.StopOrdered("lease-1", Reason.OVER_DURATION, at(7200)))
    assert lease_of(job).orders.role is Role.SAVE_AND_STOP
    assert not acts(job, now=7230), "it is saving"
    job = replace(job, leases=(change_lease(lease_of(job), agent_saved=True, agent_state="waiting"),))
    assert acts(job, now=7260) == (
        Release("lease-1", Reason.OVER_DURATION),
        SetStatus(JobStatus.FAILED, Reason.OVER_DURATION),
    )


def test_one_that_was_stopped_in_time_for_something_else_is_not_ended() -> None:
    lease = a_lease(working_since=at(0), role=Role.SAVE_AND_STOP, stop_ordered_at=at(7000))
    job = a_job(lease, spec=a_spec(max_duration=timedelta(hours=2)))
    assert SetStatus(JobStatus.FAILED, Reason.OVER_DURATION) not in acts(job, now=7300)
