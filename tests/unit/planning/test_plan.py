"""What a job would cost: the plan of a job file against a market, and the verdict."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain.job import GpuChoice, SpotPolicy
from autopilot.domain.params import Params
from autopilot.planning.plan import OverBudget, plan
from autopilot.planning.prospects import Unlikely
from tests.builders import HOUR, START, D, a_job, a_market, a_spec, an_offer

PARAMS = Params()


def planned(least: float = 0.8, offers: tuple[Any, ...] | None = None, **spec: Any) -> Any:
    job = a_job(spec=a_spec(**spec))
    market = a_market(*((an_offer(), an_offer("machine-b", floor=D("0.3"))) if offers is None else offers))
    body = plan(job, market, START, PARAMS, least).answer
    return json.loads(json.dumps(body))


def test_a_job_with_time_and_money_is_fine() -> None:
    body = planned(work_estimate=2 * HOUR, deadline=START + 8 * HOUR, budget=D(5))
    assert (body["verdict"], body["refusal"], body["ways_out"]) == ("fine", None, [])
    likely = body["forecast"]
    assert likely["on_time"] >= 0.95
    assert D(likely["p10"]) <= D(likely["p50"]) <= D(likely["p90"]) < D(5)
    assert body["expected_cost"] == likely["mean"]
    assert D(likely["mean"]) < D(body["on_demand_cost"])
    assert body["offers"][0]["capacity_type"] == "spot"


def test_too_little_money_is_refused_with_numbers_and_ways_out() -> None:
    body = planned(work_estimate=10 * HOUR, deadline=START + 14 * HOUR, budget=D("2.30"))
    assert body["verdict"] == "infeasible"
    assert "more than its budget of $2.30" in body["refusal"]
    assert "of the markets the money is out first" in body["refusal"]
    money = next(way for way in body["ways_out"] if way.startswith("more budget: $"))
    enough = D(money.removeprefix("more budget: $").split(" ")[0])
    assert D("2.30") < enough < 8
    assert any(way.startswith("a cheaper GPU, or less work") for way in body["ways_out"])
    richer = planned(work_estimate=10 * HOUR, deadline=START + 14 * HOUR, budget=enough)
    assert richer["refusal"] is None, richer
    assert planned(0.0, work_estimate=10 * HOUR, deadline=START + 14 * HOUR, budget=D("2.30"))["refusal"] is None


def test_a_budget_that_suffices_nowhere_is_refused_without_a_deadline_too() -> None:
    body = planned(work_estimate=10 * HOUR, budget=D("0.60"))
    assert body["verdict"] == "infeasible"
    assert "the budget of $0.60 is not enough in any simulated market" in body["refusal"]
    assert "is reserved for a safe start and stop" in body["refusal"]
    assert not any("deadline" in way for way in body["ways_out"]), "it has none"
    money = next(way for way in body["ways_out"] if way.startswith("more budget: $"))
    enough = D(money.removeprefix("more budget: $").split(" ")[0])
    richer = planned(work_estimate=10 * HOUR, budget=enough)
    assert (richer["verdict"], richer["refusal"]) == (None, None)
    assert planned(0.0, work_estimate=10 * HOUR, budget=D("0.60"))["refusal"] is None, "so the user asked"


def test_a_budget_that_probably_suffices_is_tight_and_the_risk_is_named() -> None:
    asked: dict[str, Any] = {"work_estimate": 10 * HOUR, "deadline": START + 14 * HOUR}
    median = D(planned(**asked)["forecast"]["p50"])
    body = planned(**asked, budget=median * D("1.1"))
    assert (body["verdict"], body["refusal"]) == ("tight", None)
    assert 0.5 <= body["forecast"]["on_time"] < 0.95
    assert any("of the markets the money is out first" in note for note in body["notes"])


def test_spot_alone_before_a_near_deadline_is_refused_and_a_later_one_named() -> None:
    body = planned(work_estimate=10 * HOUR, deadline=START + 13 * HOUR, spot_policy=SpotPolicy.SPOT, max_bid=D(1))
    assert body["verdict"] == "infeasible"
    assert "budget" not in body["refusal"]
    assert any(way.startswith("a later deadline: in ") for way in body["ways_out"])


def test_what_cannot_be_said_is_said() -> None:
    body = planned(work_estimate=None)
    assert (body["forecast"], body["verdict"]) == (None, None)
    assert any("without [work] estimate" in note for note in body["notes"])
    body = planned(budget=D(9))
    assert body["forecast"]["on_time"] is None
    assert (body["verdict"], body["refusal"]) == (None, None)
    assert any("without a [deadline]" in note for note in body["notes"])
    assert "the budget is enough in 100% of the simulated markets" in body["notes"]
    body = planned(offers=(an_offer(floor=None),), deadline=START + 30 * HOUR)
    assert any("no spot that fits" in note for note in body["notes"])
    assert (body["verdict"], body["forecast"]["p10"] < body["on_demand_cost"]) == ("fine", True)


def test_nothing_that_fits() -> None:
    body = planned(gpus=(GpuChoice("H100 SXM"),), deadline=START + 30 * HOUR)
    assert (body["offers"], body["forecast"], body["expected_cost"]) == ([], None, None)
    assert "no matching offers: the job would wait" in body["notes"]


def test_list_prices_of_hyperscalers_stand_beside() -> None:
    offer = an_offer(gpu="A100 SXM4", num_gpus=2, vram_gb=D(80), floor=D("1.2"), on_demand_price=D("2.4"))
    body = planned(offers=(offer,), gpus=(GpuChoice("A100 SXM4", 2),))
    assert body["list_price"].startswith("A100 SXM: AWS")
    assert D(body["list_price_cost"]) > D(body["on_demand_cost"])
    assert planned()["list_price_cost"] is None


def test_what_can_never_be_is_an_error() -> None:
    with pytest.raises(Unlikely, match="does not fit before the deadline"):
        planned(deadline=START + 5 * HOUR)
    with pytest.raises(OverBudget, match="does not cover one hour"):
        planned(budget=D("0.10"), deadline=START + timedelta(hours=30))


def test_a_job_of_unknown_length_is_told_by_the_hour() -> None:
    body = planned(work_estimate=None, budget=D(2))
    assert (body["expected_cost"], body["forecast"], body["verdict"]) == (None, None, None)
    (told,) = (note for note in body["notes"] if "an hour on" in note)
    hour, hours = D(told.split()[1].removeprefix("$")), D(told.partition("lasts about ")[2].split(" h")[0])
    assert "the budget of $2.00 lasts about" in told
    assert abs(D(2) / hour - hours) < 1
    assert not any("an hour on" in note for note in planned(work_estimate=2 * HOUR, budget=D(2))["notes"])
