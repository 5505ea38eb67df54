from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease, Role
from autopilot.domain.params import Budget, Deadline, Params, Timing
from autopilot.pricing.pressure import Verdict, left_longer_by, measure_pressure
from tests.builders import HOUR, START, a_job, a_lease, a_new_home, a_paused_lease, a_spec

P = Params(
    deadline=Deadline(estimate_error=0.1, held_share=1.0, least_stretch=1.0),
    timing=Timing(setup_s=600, tick_lag_s=60),
    budget=Budget(detect_s=60),
)
# 10 h of work: 11 h with the error, 10 min of set-up; one more loss costs 1 + 1 + 10 + 10 (its checkpoint) minutes.
LOSS = timedelta(minutes=22)


def job_due(hours: float, *leases: Lease, **changes: Any) -> Job:
    spec = a_spec(work_estimate=10 * HOUR, deadline=START + hours * HOUR, checkpoint_interval=timedelta(minutes=10))
    return a_job(*leases, spec=spec, **changes)


@pytest.mark.parametrize(
    ("minutes", "verdict"),
    [
        (11 * 60 + 10 + 22, Verdict.FINE),
        (11 * 60 + 10 + 21, Verdict.TIGHT),
        (10 * 60 + 10, Verdict.TIGHT),
        (10 * 60 + 9, Verdict.WILL_MISS),
    ],
)
def test_verdicts_without_a_machine(minutes: float, verdict: Verdict) -> None:
    pressure = measure_pressure(job_due(minutes / 60), START, P)
    assert (pressure.verdict, pressure.one_more_loss) == (verdict, LOSS)
    beyond = timedelta(minutes=minutes) - timedelta(hours=10, minutes=10)
    # Time is held for an error of an hour, as far as there is any beyond the estimate.
    assert pressure.slack == beyond - min(max(beyond, timedelta(0)), HOUR)
    assert pressure.needs_on_demand == (verdict is not Verdict.FINE)


@pytest.mark.parametrize(
    ("lease", "restart"),
    [
        (a_lease(), 0),
        (a_lease(role=Role.SAVE_AND_STOP), 0),
        (a_lease(running_since=None), 10),
        (a_paused_lease(), 10),
        (a_new_home(), 10),
    ],
    ids=["at work", "saving", "loading", "paused", "waiting"],
)
def test_a_run_at_work_needs_no_restart(lease: Lease, restart: int) -> None:
    pressure = measure_pressure(job_due(20, lease), START, P)
    assert pressure.slack == 9 * HOUR - timedelta(minutes=restart)


def test_once_it_has_passed_there_is_nothing_to_hurry_for() -> None:
    missed = measure_pressure(job_due(0), START, P)
    assert (missed.verdict, missed.needs_on_demand) == (Verdict.WILL_MISS, False)
    assert measure_pressure(job_due(0), START - timedelta(seconds=1), P).needs_on_demand


def test_work_done_buys_slack() -> None:
    before, after = measure_pressure(job_due(20), START, P), measure_pressure(job_due(20, work_done=5 * HOUR), START, P)
    assert before.slack is not None
    assert after.slack is not None
    # The estimate is as uncertain as before: only the job's own progress makes it better.
    assert after.slack - before.slack == 5 * HOUR
    told = measure_pressure(job_due(20, work_done=5 * HOUR, progress=Decimal("0.5")), START, P)
    assert told.slack is not None
    assert told.slack - before.slack == 5.5 * HOUR


@pytest.mark.parametrize("changes", [{"deadline": None}, {"work_estimate": None}])
def test_without_deadline_or_estimate_nothing_presses(changes: dict[str, None]) -> None:
    job = a_job(spec=a_spec(**({"deadline": START + HOUR} | changes)))
    pressure = measure_pressure(job, START, P)
    assert (pressure.slack, pressure.verdict, pressure.needs_on_demand) == (None, None, False)


def slack_of(job: Job, **numbers: float) -> timedelta:
    slack = measure_pressure(job, START, P.tune(numbers)).slack
    assert slack is not None
    return slack


def test_of_the_first_slack_only_a_share_is_held_for_an_error() -> None:
    """10 h of work and 10 min of set-up, due in 11 h: of 50 minutes 30 are held, where the whole error would be 60."""
    assert slack_of(job_due(11), held_share=0.6) == timedelta(minutes=20)
    assert slack_of(job_due(13), held_share=0.6) == timedelta(hours=2, minutes=50) - HOUR, "there all of it"
    used = measure_pressure(job_due(11), START + timedelta(minutes=20), P.tune({"held_share": 0.6}))
    assert used.slack == timedelta(0), "what is held is not waited away"


def test_the_user_says_how_long_it_takes_at_most() -> None:
    def due_in(hours: float, at_most: timedelta | None) -> Job:
        job = job_due(hours)
        return replace(job, spec=replace(job.spec, work_at_most=at_most))

    assert slack_of(due_in(20, 13 * HOUR)) == slack_of(due_in(20, None)) - 2 * HOUR
    assert slack_of(due_in(20, 10 * HOUR)) == slack_of(due_in(20, None)) + HOUR


@pytest.mark.parametrize(
    ("progress", "share"), [("0.015", (0.1 + 0.01) / 2), ("0.03", 0.01), ("0.50", 0.01), ("0", None)]
)
def test_its_own_pace_replaces_the_estimate_the_more_of_it_was_seen(progress: str, share: float | None) -> None:
    """It does a tenth in 0.8 h where the estimate says one hour."""
    pace = ((pace_key(a_lease().gpu, a_lease().num_gpus), Decimal("0.125")),)
    done = Decimal(progress)
    job = job_due(20, a_lease(), progress=done, paces=pace, work_done=float(done) * 8 * HOUR)
    left = 8 * HOUR * float(1 - done)
    held = timedelta(hours=left / HOUR * (share if share is not None else 0.1))
    assert slack_of(job) == pytest.approx(20 * HOUR - left - held, abs=timedelta(seconds=1))


def test_what_is_left_is_less_sure_the_less_it_is_until_the_pace_is_known() -> None:
    lease = a_lease()
    pace = ((pace_key(lease.gpu, lease.num_gpus), Decimal("0.1")),)
    assert left_longer_by(job_due(20), P.deadline) == pytest.approx(0.1)
    assert left_longer_by(job_due(20, lease, work_done=5 * HOUR), P.deadline) == pytest.approx(0.2)
    assert left_longer_by(job_due(20, lease, work_done=9.5 * HOUR), P.deadline) == 1.0
    paced = job_due(20, lease, progress=Decimal("0.5"), paces=pace, work_done=5 * HOUR)
    assert left_longer_by(paced, P.deadline) == P.deadline.pace_error


def test_the_pace_on_another_gpu_says_little_of_this_one() -> None:
    lease, half = a_lease(), Decimal("0.5")
    own = ((pace_key(lease.gpu, lease.num_gpus), Decimal("0.1")),)
    other = (("H100:8", Decimal("0.1")),)
    known, unknown = (job_due(20, lease, progress=half, paces=paces, work_done=5 * HOUR) for paces in (own, other))
    assert slack_of(known) == 15 * HOUR - timedelta(hours=5 * 0.01)
    assert slack_of(unknown) <= 15 * HOUR - timedelta(hours=5 * 0.1)


def test_no_time_is_held_for_longer_work_than_a_deadline_allows() -> None:
    """10 h of work due in 11 h: at 1.08 × the work or more it is 10 h 11 min at the most, and not 11 h."""
    held = timedelta(hours=11) / 1.08 - timedelta(hours=10)
    slack = slack_of(job_due(11), least_stretch=1.08)
    assert slack == pytest.approx(timedelta(minutes=50) - held, abs=timedelta(seconds=1))
    assert slack_of(job_due(13), least_stretch=1.08) == timedelta(hours=2, minutes=50) - HOUR, "there all of it"
    told = replace(job_due(11), spec=replace(job_due(11).spec, work_at_most=timedelta(hours=10.5)))
    assert slack_of(told, least_stretch=1.08) == timedelta(minutes=20), "what the user says holds"
