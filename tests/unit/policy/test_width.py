"""How many tasks of an array are to run at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.job import SpotPolicy
from autopilot.domain.params import Params
from autopilot.policy.array_measures import width_now
from autopilot.policy.width import MUCH_DEARER, Bound, TaskMeasure, Width, choose_width, due_of_task
from tests.builders import START, a_job, a_market, a_spec, an_offer

D = Decimal
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TASK = TaskMeasure(HOUR, HOUR / 2, D("0.4"))
NONE = TaskCounts()
UNKNOWN = TaskMeasure(None, timedelta(0), None)


def width(
    array: ArraySpec,
    counts: TaskCounts = NONE,
    measure: TaskMeasure = TASK,
    *,
    held: list[str] | None = None,
    offered: list[str] | None = None,
    left: timedelta | None = None,
    budget: str | None = None,
) -> Width:
    prices = [D(each) for each in offered or []]
    limit = None if budget is None else D(budget)
    return choose_width(array, counts, measure, [D(each) for each in held or []], prices, left, limit)


def test_without_a_deadline_as_many_as_are_about_as_cheap() -> None:
    chosen = width(ArraySpec(100, parallel=8), offered=["0.20", "0.23", "0.24", "0.25", "0.50"])
    assert (chosen.tasks, chosen.bound) == (3, Bound.PRICE), "a fifth dearer is about as cheap, more is not"


def test_parallel_and_the_tasks_themselves_bound_it() -> None:
    cheap = ["0.20"] * 50
    chosen = width(ArraySpec(100, parallel=8), offered=cheap)
    assert (chosen.tasks, chosen.bound) == (8, Bound.PARALLEL)
    chosen = width(ArraySpec(5, parallel=8), TaskCounts(open=1, running=1, succeeded=2), held=["0.2"], offered=cheap)
    assert (chosen.tasks, chosen.bound) == (3, Bound.TASKS), "the one that runs and the two that have not begun"


def test_a_held_machine_is_what_others_are_compared_with() -> None:
    counts = TaskCounts(open=2, running=2)
    chosen = width(ArraySpec(100, parallel=8), counts, held=["0.20", "0.21"], offered=["0.40", "0.41"])
    assert (chosen.tasks, chosen.bound) == (2, Bound.PRICE), "the cheap ones are taken, and by this very array"


@pytest.mark.parametrize(("left_h", "machines"), [(101, 1), (51, 2), (11, 10), (6, 20), (2, 100), (1, 100)])
def test_the_deadline_asks_for_so_many(left_h: int, machines: int) -> None:
    """100 tasks of an hour each, half an hour in reserve."""
    chosen = width(ArraySpec(100, parallel=1000), offered=["0.20", "0.90"], left=left_h * HOUR)
    assert chosen.for_deadline == machines
    assert chosen.tasks == max(machines, 1)


def test_tasks_that_find_a_machine_booted_take_no_boot_of_the_time() -> None:
    measure = TaskMeasure(HOUR, timedelta(0), D("0.4"), setup=HOUR / 2)
    array = ArraySpec(12, parallel=100)
    assert width(array, measure=measure, offered=["0.2", "0.9"], left=2 * HOUR).for_deadline == 4, (
        "1 + 2 × 0.5 h: three"
    )
    assert width(array, measure=measure, offered=["0.2", "0.9"], left=HOUR).for_deadline == 12


@pytest.mark.parametrize(
    ("policy", "is_due", "tasks"),
    [
        (SpotPolicy.AUTO, True, 1),
        (SpotPolicy.AUTO, False, 3),
        (SpotPolicy.ON_DEMAND, True, 3),
    ],
)
def test_on_demand_alone_is_not_cheap_where_a_deadline_leaves_time_for_a_bid(
    policy: SpotPolicy, is_due: bool, tasks: int
) -> None:
    offers = [an_offer(f"machine-{n}", floor=None, on_demand_price=D("0.5")) for n in range(3)]
    spec = replace(a_spec(spot_policy=policy), array=ArraySpec(8, parallel=8), work_estimate=HOUR, budget=None)
    job = a_job(spec=replace(spec, deadline=START + 100 * HOUR if is_due else None))
    chosen = width_now(job, NONE, (), a_market(*offers), START, Params())
    assert chosen.width.tasks == tasks


def test_what_need_not_succeed_needs_no_machine_before_the_deadline() -> None:
    array = ArraySpec(100, parallel=100, succeed_at=D("0.5"))
    chosen = width(array, TaskCounts(succeeded=30), left=HOUR * 6, offered=["0.2", "0.9"])
    assert chosen.for_deadline == 4, "20 more in 5.5 hours, one an hour: 5 one after another"


def test_a_budget_pays_whole_tasks_beside_those_that_run() -> None:
    cheap = ["0.20"] * 50
    chosen = width(
        ArraySpec(100, parallel=8), TaskCounts(open=2, running=2), held=["0.2"] * 2, offered=cheap, budget="2"
    )
    assert (chosen.tasks, chosen.bound, chosen.payable) == (5, Bound.BUDGET, 3), "$2 - 2 × $0.40 pays 3 of $0.40"
    chosen = width(ArraySpec(100, parallel=8), offered=cheap, budget="0.39")
    assert (chosen.tasks, chosen.bound, chosen.payable) == (0, Bound.BUDGET, 0)
    assert width(ArraySpec(100, parallel=8), measure=UNKNOWN, offered=cheap, budget="0.01").tasks == 8, (
        "the cost of a task is unknown: the guard bounds the whole"
    )


def test_where_nothing_is_offered_one_task_waits_for_the_market() -> None:
    chosen = width(ArraySpec(100, parallel=8))
    assert (chosen.tasks, chosen.bound) == (1, Bound.NO_OFFER)


counts = st.builds(
    TaskCounts,
    open=st.integers(0, 20),
    parked=st.just(0),
    succeeded=st.integers(0, 30),
    failed=st.integers(0, 10),
)
prices = st.lists(st.decimals("0.01", "5", places=3), max_size=40)


@given(
    count=st.integers(1, 100),
    parallel=st.integers(1, 50),
    counts=counts,
    held=prices,
    offered=prices,
    left_h=st.none() | st.integers(-5, 200),
    budget=st.none() | st.decimals("-5", "50", places=2),
)
def test_it_is_never_more_than_any_bound(
    count: int,
    parallel: int,
    counts: TaskCounts,
    held: list[Decimal],
    offered: list[Decimal],
    left_h: int | None,
    budget: Decimal | None,
) -> None:
    count = max(count, counts.begun)
    left = None if left_h is None else left_h * HOUR
    chosen = choose_width(ArraySpec(count, parallel=parallel), counts, TASK, held, offered, left, budget)
    more = chosen.tasks - counts.active
    assert chosen.tasks <= parallel or more <= 0
    assert more <= count - counts.begun
    if budget is not None and more > 0 and TASK.cost is not None:
        assert chosen.tasks * TASK.cost <= budget, "all of them are paid to their end"
    if more > 0 and left is None and (held or offered):
        cheapest = min([*held, *offered])
        assert sum(price <= cheapest * (1 + MUCH_DEARER) for price in offered) >= more


def test_a_task_is_due_at_its_share_of_the_time() -> None:
    due = due_of_task(40, 10, TASK, NOW + 8 * HOUR, NOW)
    assert due == NOW + 2 * HOUR, "four turns of ten"
    assert due_of_task(40, 10, TASK, NOW + 4 * HOUR, NOW) == NOW + HOUR * 1.5, "no share is less than a task takes"
    assert due_of_task(40, 10, TASK, NOW + HOUR, NOW) == NOW + HOUR, "nor later than all of it is due"
