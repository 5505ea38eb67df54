"""The tasks of a machine add up to its amounts exactly, for any postings and corrections, and at any time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.lease import TaskUse
from autopilot.domain.money import from_nano
from autopilot.domain.task_shares import share_lease, sum_shares

START = datetime(2026, 1, 1, tzinfo=UTC)
nanos = st.integers(-(10**13), 10**13).map(from_nano)
spells = st.lists(st.tuples(st.integers(0, 10**11), st.integers(0, 10**10)), min_size=1, max_size=12)


def uses_of(lengths: list[tuple[int, int]], *, is_last_open: bool) -> list[TaskUse]:
    at, made = START, list[TaskUse]()
    for number, (busy, idle) in enumerate(lengths):
        end = at + timedelta(microseconds=busy)
        made.append(TaskUse(f"task-{number}", at, None if is_last_open and number == len(lengths) - 1 else end))
        at = end + timedelta(microseconds=idle)
    return made


@given(
    amounts=st.dictionaries(st.integers(0, 9), nanos, max_size=8),
    corrections=st.dictionaries(st.integers(0, 9), nanos, max_size=8),
    lengths=spells,
    is_last_open=st.booleans(),
    later=st.integers(0, 10**11),
)
def test_shares_add_up_exactly_at_any_time_and_after_any_correction(
    amounts: dict[int, Decimal],
    corrections: dict[int, Decimal],
    lengths: list[tuple[int, int]],
    is_last_open: bool,
    later: int,
) -> None:
    uses = uses_of(lengths, is_last_open=is_last_open)
    now = uses[-1].ordered_at + timedelta(microseconds=later)
    corrected = {key: amounts.get(key, Decimal(0)) + corrections.get(key, Decimal(0)) for key in amounts | corrections}
    for booked in (amounts, corrected):
        shared = share_lease(booked, uses, now)
        assert sum_shares(shared.values()) == {key: amount for key, amount in booked.items() if amount}
        assert list(shared) == [use.job_id for use in uses], "every task is told of, also one that cost nothing"


@given(nano=st.integers(0, 10**13), first=st.integers(1, 10**6), second=st.integers(1, 10**6))
def test_a_share_is_that_of_the_time_to_a_nano_dollar(nano: int, first: int, second: int) -> None:
    uses = uses_of([(first, 5), (second, 0)], is_last_open=False)
    shared = share_lease({"compute": from_nano(nano)}, uses, START + timedelta(days=1))
    exact = Decimal(nano) * first / (first + second)
    assert abs(shared["task-0"].get("compute", Decimal(0)) * 10**9 - exact) <= 1


def test_before_anything_has_run_the_first_has_all_of_it() -> None:
    (use,) = uses_of([(0, 0)], is_last_open=True)
    assert share_lease({"disk": from_nano(7)}, [use], START) == {"task-0": {"disk": from_nano(7)}}
