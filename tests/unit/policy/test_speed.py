"""What is known of a job's length on given GPUs, in order of trust."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain import events as e
from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint, GpuChoice
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params, Timing, TrafficSizes
from autopilot.pricing.gpu_speeds import relative_speed, speed
from autopilot.pricing.pressure import measure_pressure
from autopilot.pricing.rule.cost import price_candidates
from autopilot.pricing.speed import setup_time, work_left, work_left_anywhere
from tests.builders import HOUR, START, a_job, a_lease, a_market, a_spec, an_offer, at, heartbeat, play, seen

RUNNING = InstanceStatus.RUNNING
BOTH = (GpuChoice("RTX 3090"), GpuChoice("RTX 4090"))


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("RTX 4090", 165), ("A100 SXM4", 312), ("A100", 312), ("L40S", 362), ("L4", 121), ("RTX 3090 Ti", 80)],
)
def test_the_longest_name_that_begins_the_market_s_name_counts(name: str, tflops: int) -> None:
    assert speed(name) == tflops


def test_what_the_table_does_not_know_is_unknown() -> None:
    assert speed("A1000") is None
    assert relative_speed("RTX 4090", 1, "Voodoo 2", 1) is None
    assert relative_speed("RTX 4090", 2, "RTX 4090", 1) == 2


def test_an_estimate_holds_for_every_gpu_unless_it_says_for_which() -> None:
    spec = a_spec(work_estimate=10 * HOUR, gpus=BOTH)
    assert work_left(a_job(spec=spec), "RTX 3090", 1) == 10 * HOUR
    scaled = a_job(spec=replace(spec, work_on="RTX 4090"))
    assert work_left(scaled, "RTX 4090", 1) == 10 * HOUR
    assert work_left(scaled, "RTX 3090", 1) == pytest.approx(10 * HOUR * 165 / 71, abs=timedelta(seconds=1))
    assert work_left(scaled, "Voodoo 2", 1) == 10 * HOUR
    assert work_left(a_job(spec=a_spec(work_estimate=None)), "RTX 4090", 1) is None


def test_a_pace_that_was_seen_beats_the_estimate() -> None:
    spec = a_spec(work_estimate=10 * HOUR, gpus=BOTH)
    job = replace(a_job(spec=spec), progress=Decimal("0.5"), paces=(("RTX 4090:1", Decimal("0.25")),))
    assert work_left(job, "RTX 4090", 1) == 2 * HOUR
    assert work_left(job, "RTX 3090", 1) == pytest.approx(2 * HOUR * 165 / 71, abs=timedelta(seconds=1))


def test_a_pace_is_not_forgotten_while_no_machine_reports_progress() -> None:
    """The job takes 48 h and not 24 h, as it has shown; 30 h of it are saved."""
    pace = (("RTX 4090:1", 1 / Decimal(48)),)
    job = replace(a_job(spec=a_spec(work_estimate=24 * HOUR, gpus=BOTH)), work_done=30 * HOUR, paces=pace)
    assert work_left(job, "RTX 4090", 1) == pytest.approx(18 * HOUR, abs=timedelta(seconds=1))
    assert work_left(job, "RTX 3090", 1) == pytest.approx(18 * HOUR * 165 / 71, abs=timedelta(seconds=1))
    assert work_left_anywhere(job) == work_left(job, "RTX 4090", 1)
    due = replace(job, spec=replace(job.spec, deadline=START + 30 * HOUR))
    assert measure_pressure(due, START, Params()).work_s == pytest.approx(18 * 3600, abs=1)
    assert work_left_anywhere(replace(job, paces=())) == timedelta(0), "the estimate is all there is"
    on_two = replace(due, work_done=3 * HOUR, paces=(*pace, ("H100:1", Decimal("0.5"))))
    assert work_left_anywhere(on_two) == 21 * HOUR, "whose hours are they?"


def test_the_pace_is_learned_from_progress_over_work_done() -> None:
    lease = a_lease(agent_state="running")
    job = replace(a_job(lease, spec=a_spec(work_estimate=10 * HOUR)), work_done=HOUR)

    def beat(seq: int, progress: str) -> e.HeartbeatSeen:
        return e.HeartbeatSeen(lease.id, 1, seq, AgentState.RUNNING, seq, Decimal(progress), None, 0, False, at(seq))

    job = play(job, beat(1, "0.10"))
    assert job.paces == ()
    job = play(replace(job, work_done=HOUR + timedelta(minutes=4)), beat(2, "0.12"))
    assert job.paces == (), "too little work to judge by"
    job = play(replace(job, work_done=2 * HOUR), beat(3, "0.30"))
    assert job.paces == (("RTX 4090:1", Decimal("0.200000")),)


def progress_at(lease: Lease, minutes: float, progress: str) -> e.Event:
    return heartbeat(lease, at(minutes * 60), progress=Decimal(progress))


def test_no_pace_is_learned_while_the_market_shows_nothing() -> None:
    """Progress is heard all through an outage in which the machine ends; the work that made it is never counted."""
    lease = a_lease(agent_state="running", last_seen_at=START)
    job = a_job(lease, spec=a_spec(work_estimate=10 * HOUR))
    for minute in range(1, 11):
        job = play(job, progress_at(lease, minute, str(minute / 120)), seen(lease, RUNNING, at(minute * 60 + 1)))
    (learned,) = job.paces
    assert learned[1] == pytest.approx(Decimal("0.5"), abs=Decimal("0.01"))
    for minute in range(11, 56):
        job = play(job, progress_at(lease, minute, str(minute / 120)))
    assert job.paces[0][1] == pytest.approx(Decimal("0.5"), abs=Decimal("0.1"))
    job = play(job, e.LeaseGone(lease.id, at(3400)))
    assert job.paces[0][1] == pytest.approx(Decimal("0.5"), abs=Decimal("0.1"))


def test_after_an_uncounted_silence_progress_is_measured_again() -> None:
    lease = a_lease(agent_state="running", last_seen_at=START)
    job = a_job(lease, spec=a_spec(work_estimate=10 * HOUR))
    for minute in range(1, 11):
        job = play(job, progress_at(lease, minute, str(minute / 120)), seen(lease, RUNNING, at(minute * 60 + 1)))
    for minute in range(11, 41):  # shown, and not heard
        job = play(job, seen(lease, RUNNING, at(minute * 60 + 1)))
    for minute in range(41, 51):
        job = play(job, progress_at(lease, minute, str(minute / 120)), seen(lease, RUNNING, at(minute * 60 + 1)))
    assert job.paces[0][1] == pytest.approx(Decimal("0.5"), abs=Decimal("0.05"))


def test_set_up_takes_the_transfers_over_the_host_s_link() -> None:
    params = Params(timing=Timing(boot_s=100), traffic=TrafficSizes(image_gb=Decimal(10)))
    offer = an_offer(download_mbps=Decimal(800))
    assert setup_time(a_job(), offer, params) == timedelta(seconds=200)
    checkpoint = Checkpoint("job-1", "lease-1", 0, 1, 5, HOUR, 10**10, 1, START)
    assert setup_time(replace(a_job(), checkpoint=checkpoint), offer, params) == timedelta(seconds=300)
    assert setup_time(a_job(), replace(offer, download_mbps=Decimal(1)), params) == timedelta(seconds=4100)
    assert setup_time(a_job(), replace(offer, download_mbps=Decimal(0)), params) == timedelta(seconds=260)


def test_a_dearer_gpu_wins_when_it_finishes_for_less() -> None:
    slow = an_offer("slow", gpu="RTX 3090", floor=Decimal("0.20"))
    fast = an_offer("fast", gpu="RTX 4090", floor=Decimal("0.30"))
    spec = a_spec(work_estimate=10 * HOUR, work_on="RTX 4090", gpus=BOTH)
    job = a_job(spec=spec)
    ranked = price_candidates(job, a_market(slow, fast), (slow, fast), Params())
    assert ranked[0].offer.machine_id == "fast"
    plain = a_job(spec=replace(spec, work_on=None))
    assert price_candidates(plain, a_market(slow, fast), (slow, fast), Params())[0].offer.machine_id == "slow"


def test_dear_traffic_makes_a_cheap_machine_dear() -> None:
    plain, trap = an_offer("plain"), an_offer("trap", upload_price=Decimal(50))
    trap = replace(trap, floor=(trap.floor or Decimal(0)) - Decimal("0.01"))
    ranked = price_candidates(a_job(), a_market(plain, trap), (plain, trap), Params())
    assert ranked[0].offer.machine_id == "plain"
