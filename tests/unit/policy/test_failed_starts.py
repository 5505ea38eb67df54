"""Machines on which a job never ran: what ends it, and what does not."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.actions import Release, SetStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import INVALID, FailedStart
from autopilot.policy.decide import decide
from autopilot.policy.failed_starts import FIRST_PAUSE, LONGEST_PAUSE, next_start_at
from tests.builders import START, a_job, a_lease, a_market, a_spec, an_offer

LOADING = Params().loading
D = Decimal


def starts(count: int, fault: str = "", *, hosts: int | None = None, cost: str = "0.1") -> tuple[FailedStart, ...]:
    """So many, on as many hosts unless told otherwise."""
    return tuple(
        FailedStart(f"lease-{number}", f"vastai/{number % (hosts or count)}", fault, "words", START, True, D(cost))
        for number in range(count)
    )


def fails(job: Job) -> bool:
    actions = decide(job, a_market(), START, Params()).actions
    return any(isinstance(each, SetStatus) and each.reason is Reason.NEVER_STARTED for each in actions)


UNBOUNDED = a_spec(budget=None)


@pytest.mark.parametrize(
    ("lost", "is_over"),
    [
        (starts(LOADING.most_dead_hosts), True),
        (starts(LOADING.most_dead_hosts - 1), False),
        (starts(LOADING.most_dead_hosts, "disk_full"), False),  # another host may start it
        (starts(LOADING.most_dead_hosts, "pull_failed"), False),
        (starts(LOADING.most_dead_hosts, hosts=3), False),  # they say nothing of others
        (starts(LOADING.most_failed_starts, hosts=3), True),  # and yet a thin market is not rented for ever
        (starts(LOADING.most_failed_starts, "disk_full"), True),
        (starts(LOADING.most_invalid, INVALID, cost="0"), True),
        (starts(LOADING.most_invalid - 1, INVALID, cost="0"), False),
        ((*starts(LOADING.most_invalid, INVALID, cost="0"), *starts(1, "disk_full")), False),
    ],
)
def test_a_job_fails_by_hosts_that_do_not_say_why_and_never_by_a_few(
    lost: tuple[FailedStart, ...], is_over: bool
) -> None:
    assert fails(a_job(spec=UNBOUNDED, fruitless=len(lost), failed_starts=lost)) is is_over


@pytest.mark.parametrize(("cost", "is_over"), [("1.24", False), ("1.25", True)])
@pytest.mark.parametrize("fault", ["", "disk_full"])
def test_half_of_the_budget_is_the_most_that_they_cost(cost: str, is_over: bool, fault: str) -> None:
    job = a_job(spec=a_spec(budget=D(5)), failed_starts=starts(2, fault, cost=cost))
    assert fails(job) is is_over


def test_its_machine_goes_with_the_job() -> None:
    job = a_job(a_lease(), spec=UNBOUNDED, fruitless=16, failed_starts=starts(LOADING.most_dead_hosts))
    release, failed = decide(job, a_market(), START, Params()).actions
    assert release == Release("lease-1", Reason.NEVER_STARTED)
    assert isinstance(failed, SetStatus)
    assert failed.status is JobStatus.FAILED
    assert dict(failed.numbers) == {"launches": 16, "hosts": 16, "cost": D("1.6")}


def test_where_58_percent_of_hosts_never_boot_a_job_practically_never_fails_of_them() -> None:
    assert 0.58**LOADING.most_dead_hosts < 1 / 5000


@pytest.mark.parametrize(
    ("times", "pause"),
    [(1, FIRST_PAUSE), (2, 2 * FIRST_PAUSE), (3, 4 * FIRST_PAUSE), (9, LONGEST_PAUSE), (4000, LONGEST_PAUSE)],
)
def test_a_pull_limit_is_waited_for_with_growing_pauses(times: int, pause: timedelta) -> None:
    few = starts(min(times, LOADING.most_failed_starts - 1), "pull_limit", cost="0")
    job = a_job(spec=UNBOUNDED, failed_starts=few)
    assert next_start_at(job) == START + pause
    market = a_market(an_offer())
    waits = decide(job, market, START + pause - timedelta(seconds=1), Params())
    assert waits.actions == ()
    assert [note.topic for note in waits.notes][-1] == "pull_limit"
    assert decide(job, market, START + pause, Params()).actions


def test_other_faults_are_not_waited_for() -> None:
    assert next_start_at(a_job(failed_starts=starts(3, "disk_full"))) is None
    assert next_start_at(a_job()) is None
