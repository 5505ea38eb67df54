"""How wrong an estimate may be, by the user's own past."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from autopilot.domain.job import GpuChoice, Job, JobStatus
from autopilot.pricing.past_estimates import CHANCE, LEAST_ERROR, MOST_ERROR, learn_error, overrun_of
from tests.builders import HOUR, a_job, a_spec

ASSUMED = 0.15


def done(overrun: float, name: str = "train", status: JobStatus = JobStatus.SUCCEEDED, **changes: Any) -> Job:
    spec = a_spec(name=name, work_estimate=10 * HOUR)
    return a_job(spec=spec, status=status, work_done=10 * HOUR * (1 + overrun), **changes)


def learnt(overruns: Sequence[float], name: str = "train") -> tuple[float, int] | None:
    return learn_error(a_spec(name="train", work_estimate=HOUR), [done(over, name) for over in overruns], ASSUMED)


def test_two_jobs_prove_nothing() -> None:
    assert learnt([0.5, 0.5]) is None
    assert learnt([0.5, 0.5, 0.5]) == (0.5, 3)


def test_a_few_good_estimates_are_not_yet_believed_and_many_are() -> None:
    assert learnt([0.01] * 5) == (ASSUMED, 5)
    assert learnt([0.01] * 30) == (LEAST_ERROR, 30), "the work of a job is never known to the minute"


def test_bad_estimates_hold_more_up_to_a_bound() -> None:
    assert learnt([0.1, 0.2, 0.4]) == (0.4, 3)
    assert learnt([5.0] * 8) == (MOST_ERROR, 8)
    assert learnt([-0.5] * 30) == (LEAST_ERROR, 30), "too long an estimate is none that is too short"


def test_jobs_of_the_same_name_come_first_where_they_are_enough() -> None:
    past = [done(0.9, "other") for _ in range(20)] + [done(0.05) for _ in range(3)]
    spec = a_spec(name="train", work_estimate=HOUR)
    assert learn_error(spec, past, ASSUMED) == (ASSUMED, 3)
    assert learn_error(spec, past[:-1], ASSUMED) == (0.9, 22)


@pytest.mark.parametrize(
    "job",
    [
        done(0.1, status=JobStatus.FAILED),
        done(0.1, certifies="vastai"),
        done(0.1, paces=(("A100:1", Decimal("0.1")), ("H100:1", Decimal("0.2")))),
        a_job(spec=a_spec(work_estimate=None), status=JobStatus.SUCCEEDED, work_done=HOUR),
        a_job(
            spec=a_spec(work_estimate=HOUR, work_on="A100", gpus=(GpuChoice("A100"), GpuChoice("H100"))),
            status=JobStatus.SUCCEEDED,
            work_done=HOUR,
        ),
    ],
)
def test_what_says_nothing_is_left_out(job: Job) -> None:
    assert overrun_of(job) is None


def test_nine_of_ten_next_jobs_need_no_more_than_is_held() -> None:
    rng, kept, tried = Random(5), 0, 0
    for _ in range(400):
        spread = rng.uniform(0.02, 0.4)
        overruns = [max(rng.gauss(0, spread), 0.0) for _ in range(41)]
        found = learnt(overruns[:40])
        assert found is not None
        tried += 1
        kept += overruns[40] <= found[0]
    assert kept / tried >= CHANCE - 0.03
    assert kept / tried <= 0.97, "no more is held than is asked for"


def test_the_newest_fifty_count() -> None:
    found = learnt([0.02] * 50 + [0.9] * 50)
    assert found == (0.02, 50)
