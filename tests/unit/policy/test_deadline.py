from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.job import Job
from autopilot.domain.lease import Role
from autopilot.domain.params import Budget, Deadline, Params, Timing
from autopilot.pricing.pressure import Verdict, measure_pressure
from tests.builders import HOUR, START, a_job, a_lease, a_new_home, a_paused_lease, a_spec

P = Params(deadline=Deadline(estimate_error=0.1), timing=Timing(setup_s=600, tick_lag_s=60), budget=Budget(detect_s=60))
# 10 h of work: 11 h with the error, 10 min of set-up; one more loss costs 1 + 1 + 10 + 10 (its checkpoint) minutes.
LOSS = timedelta(minutes=22)


def job_due(hours: float, *leases: object, **changes: object) -> Job:
    spec = a_spec(work_estimate=10 * HOUR, deadline=START + hours * HOUR, checkpoint_interval=timedelta(minutes=10))
    return a_job(*leases, spec=spec, **changes)  # type: ignore[arg-type]


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
    assert pressure.slack == timedelta(minutes=minutes) - timedelta(hours=11, minutes=10)
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
def test_a_run_at_work_needs_no_restart(lease: object, restart: int) -> None:
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
