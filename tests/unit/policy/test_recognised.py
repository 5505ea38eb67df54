"""Progress that is recognised in a job's output frees a part of the time held, and never takes from the work."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.job import Job, pace_key
from autopilot.domain.lease import Lease, Role
from autopilot.domain.params import Params
from autopilot.domain.readings import Readings, Recognised
from autopilot.pricing.pressure import Pressure, Verdict, measure_pressure
from autopilot.pricing.speed import work_left
from tests.builders import HOUR, START, a_job, a_lease, a_spec

P = Params()
ROUNDING_S = 1e-3
HELD_H = 1.5
"""0.15 of 10 h, where the deadline leaves that much."""


def at_work(told: Recognised | None, **changes: Any) -> Lease:
    lease = a_lease(**changes)
    return replace(lease, agent=replace(lease.agent, readings=Readings(recognised=told)))


def told(whole_h: float, fraction: float = 0.3, confidence: float = 0.9, seen: float = 0.1) -> Recognised:
    """A bar that takes so long in all."""
    return Recognised("bar", 30, fraction, confidence, whole_h * (1 - fraction) * 3600, seen)


def a_run(bar: Recognised | None, done_h: float = 3.0, **changes: Any) -> Job:
    """10 h of work by the estimate, due in 20."""
    spec = a_spec(work_estimate=10 * HOUR, deadline=START + 20 * HOUR)
    return a_job(at_work(bar), spec=spec, **{"work_done": done_h * HOUR, **changes})


def upper_h(job: Job) -> float:
    return measure_pressure(job, START, P).upper_work_s / 3600


def test_a_bar_that_agrees_with_the_estimate_frees_most_of_what_is_held_and_a_job_s_own_word_more() -> None:
    assert upper_h(a_run(None)) == pytest.approx(7.0 + HELD_H)
    trust = P.deadline.recognised_trust * 0.9
    assert upper_h(a_run(told(10.0))) == pytest.approx(7.0 + (1 - trust) * HELD_H + trust * 0.07)
    paces = ((pace_key(a_lease().gpu, a_lease().num_gpus), Decimal("0.1")),)
    assert upper_h(a_run(told(10.0), progress=Decimal("0.3"), paces=paces)) < upper_h(a_run(told(10.0)))


def test_what_is_held_falls_by_and_by() -> None:
    by_seen = [upper_h(a_run(told(10.0, seen=share))) for share in (0.0, 0.01, 0.03, 0.05, 0.5)]
    assert by_seen[0] == pytest.approx(7.0 + HELD_H)
    assert by_seen[:4] == sorted(by_seen[:4], reverse=True)
    assert by_seen[3] == by_seen[4] > 7.0
    by_confidence = [upper_h(a_run(told(10.0, confidence=sure))) for sure in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert by_confidence == sorted(by_confidence, reverse=True)


def test_a_bar_of_something_shorter_counts_for_little_and_one_at_its_end_for_nothing() -> None:
    assert upper_h(a_run(told(0.2))) == pytest.approx(7.0 + HELD_H, abs=0.04)
    full = Recognised("bar", 100, 1.0, 0.9, 0.0, 0.5)
    unseen = Recognised("bar", 1, 0.01, 0.9)
    for bar in (full, unseen):
        assert upper_h(a_run(bar)) == pytest.approx(7.0 + HELD_H)


def test_more_work_than_was_estimated_is_believed_in_proportion() -> None:
    assert upper_h(a_run(told(15.0))) > 7.0 + HELD_H
    doubtful = upper_h(a_run(told(15.0, confidence=0.3)))
    assert upper_h(a_run(None)) < doubtful < upper_h(a_run(told(15.0)))
    assert measure_pressure(a_run(told(29.0)), START, P).work_s > 7.5 * 3600
    assert measure_pressure(a_run(told(1e6)), START, P).upper_work_s < 18 * 3600, "and never by more than one estimate"


def test_an_estimate_that_is_used_up_says_less_than_the_bar() -> None:
    assert upper_h(a_run(None, done_h=10.0)) == pytest.approx(1.5)
    assert upper_h(a_run(told(14.0, fraction=10 / 14), done_h=10.0)) > 2.4


@pytest.mark.parametrize("lease", [{"role": Role.WAIT}, {"running_since": None}], ids=["waiting", "loading"])
def test_nothing_is_trusted_while_the_command_does_not_run(lease: dict[str, Any]) -> None:
    job = a_run(None)
    with_bar, without = (replace(job, leases=(at_work(bar, **lease),)) for bar in (told(10.0), None))
    assert measure_pressure(with_bar, START, P) == measure_pressure(without, START, P)


bars = st.builds(
    Recognised,
    form=st.just("bar"),
    step=st.none(),
    fraction=st.floats(0, 1),
    confidence=st.floats(0, 1),
    left_s=st.none() | st.floats(0, 1e8),
    seen=st.floats(0, 1),
)


@given(
    bars,
    st.floats(0, 12),
    st.floats(0.1, 60),
    st.none() | st.floats(0.5, 3),
    st.sampled_from([(), ("0.08",), ("0.2",)]),
)
def test_no_bar_makes_the_plan_count_on_less_time_than_without_it_but_what_was_held(
    bar: Recognised, done_h: float, due_h: float, at_most: float | None, paces: tuple[str, ...]
) -> None:
    key = pace_key(a_lease().gpu, a_lease().num_gpus)
    known = tuple((key, Decimal(pace)) for pace in paces)

    def pressed(said: Recognised | None) -> tuple[Pressure, float]:
        job = a_run(said, done_h, paces=known)
        at_most_h = None if at_most is None else 10 * HOUR * at_most
        job = replace(job, spec=replace(job.spec, deadline=START + due_h * HOUR, work_at_most=at_most_h))
        left = work_left(job, a_lease().gpu, a_lease().num_gpus)
        assert left is not None
        return measure_pressure(job, START, P), left.total_seconds()

    (without, left_s), (with_bar, _) = pressed(None), pressed(bar)
    held_s = without.upper_work_s - left_s
    assert with_bar.upper_work_s >= left_s + (1 - P.deadline.recognised_trust) * held_s - ROUNDING_S
    assert with_bar.upper_work_s <= without.upper_work_s + left_s + done_h * 3600 + ROUNDING_S
    assert with_bar.verdict is Verdict.WILL_MISS or without.verdict is not Verdict.WILL_MISS
