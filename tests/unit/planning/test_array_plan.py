"""What an array would cost and when all of it is done, by how many of its tasks run at once."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from autopilot.domain.array import ArraySpec
from autopilot.domain.params import Params
from autopilot.planning.array_plan import plan_array
from autopilot.planning.plan import OverBudget
from tests.builders import HOUR, START, D, a_job, a_market, a_spec, an_offer

PARAMS = Params()
ARRAY = ArraySpec(12, parallel=4)


def planned(array: ArraySpec = ARRAY, floors: tuple[str, ...] = ("0.20",) * 6, **spec: Any) -> Any:
    job = a_job(spec=a_spec(**{"work_estimate": HOUR, "array": array} | spec))
    market = a_market(*(an_offer(f"machine-{number}", floor=D(floor)) for number, floor in enumerate(floors)))
    return json.loads(json.dumps(plan_array(job, market, START, PARAMS).answer))


def test_the_curve_says_what_each_width_costs_and_when_it_ends() -> None:
    body = planned(deadline=START + 20 * HOUR)
    array = body["array"]
    assert (array["width"], array["bound"], array["needed"]) == (4, "parallel", 12)
    curve = array["curve"]
    assert [row["width"] for row in curve] == [1, 2, 4]
    ends = [datetime.fromisoformat(row["end"]) - START for row in curve]
    assert ends[0] > 12 * HOUR
    assert ends[0] > 1.9 * ends[1] > 3.6 * ends[2]
    assert (body["expected_cost"], array["end"]) == (curve[2]["expected_cost"], curve[2]["end"])
    assert (body["verdict"], body["refusal"]) == ("fine", None)


def test_dearer_machines_make_a_wider_array_dearer() -> None:
    curve = planned(floors=("0.20", "0.21", "0.30", "0.30"), deadline=START + 4 * HOUR)["array"]["curve"]
    costs = [D(row["expected_cost"]) for row in curve]
    assert costs[0] < costs[1] < costs[2]


def test_too_little_time_is_refused_and_a_width_that_would_do_is_named() -> None:
    body = planned(ArraySpec(40, parallel=2), deadline=START + 10 * HOUR)
    assert body["verdict"] == "infeasible"
    assert "more than parallel = 2 at once" in body["ways_out"]
    assert planned(ArraySpec(40, parallel=30), deadline=START + 10 * HOUR)["refusal"] is None


def test_a_budget_that_finishes_a_part_says_how_much() -> None:
    body = planned(ArraySpec(1000, parallel=4), budget=D(20))
    payable = body["array"]["payable"]
    assert 0 < payable < 1000
    assert f"the budget of $20.00 finishes about {payable:,} of the 1,000 tasks" in body["notes"]
    with pytest.raises(OverBudget, match="pays for none of the 12 tasks"):
        planned(budget=D("0.05"))


def test_the_deadline_of_the_array_is_no_lack_of_its_tasks() -> None:
    lack = "without a [deadline] there is no on-time estimate"
    assert lack not in planned(deadline=START + 20 * HOUR)["notes"]
    assert lack in planned()["notes"]
