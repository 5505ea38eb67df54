"""Events and the numbers of decisions as people read them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from autopilot.api import jobs
from autopilot.cli import story, text
from autopilot.domain.job import JobStatus
from autopilot.engine import event_log, invoices

FIELDS = {
    "bid": "0.306",
    "from": "0.278123456",
    "reason": "too_many_launches",
    "cause": "out_of_credit",
    "message": "no_such_ask",
    "current_bid": "0.278",
    "instance_id": "47848147",
    "machine_id": "43668",
    "provider": "vastai",
    "gpu": "RTX 4090",
    "capacity_type": "on_demand",
    "number": 7,
    "step": 410,
    "bytes": 1_500_000_000,
    "seconds": 15,
    "state": "setting_up",
    "exit_code": 1,
    "run_epoch": 2,
    "accepted": "false",
    "estimate": "0.263012345",
}


def _names() -> set[str]:
    source = "".join(inspect.getsource(module) for module in (event_log, invoices, jobs))
    return set(re.findall(r'"((?:lease|bid|run|checkpoint|agent|work|invoice|job)\.[a-z_]+)"', source))


def tell(name: str, **fields: Any) -> str:
    return story.tell({"name": name, "fields": fields})


def test_each_event_of_the_log_has_its_sentence() -> None:
    assert len(_names()) > 25
    assert _names() == set(story.SENTENCES)


@pytest.mark.parametrize("name", sorted({*story.SENTENCES, *(f"job.{status}" for status in JobStatus)}))
def test_no_sentence_has_a_code_or_a_raw_number(name: str) -> None:
    for fields in (FIELDS, {}):
        told = tell(name, **fields).replace("no_such_ask", "")
        assert "_" not in told, told
        assert "=" not in told, told
        assert not re.search(r"\d\.\d{4}", told), told
        assert "." not in told[-1:], "the line is one sentence without its full stop"


def test_the_story_of_an_outbid() -> None:
    assert tell("lease.paused", cause="outbid", bid="0.278") == "outbid at $0.278/h"
    assert tell("bid.intended", bid="0.306", **{"from": "0.278"}) == "raises the bid from $0.278/h to $0.306/h"
    assert tell("bid.intended", bid="0.25", **{"from": "0.278"}) == "lowers the bid from $0.278/h to $0.25/h"
    assert tell("lease.resumed", bid="0.306") == "the machine is back at $0.306/h"
    assert tell("work.lost", seconds=15) == "15 s of work lost"
    assert tell("lease.paused", cause="out_of_credit", bid="0.3") == "the market stopped the machine: out of credit"
    assert tell("lease.refused", reason="refused", message="no \x1b[2Jsuch ask").endswith("no [2Jsuch ask")
    assert tell("job.parked", reason="budget_exhausted") == "the job is parked: budget exhausted"


def test_what_a_later_version_logs_is_shown_as_it_is() -> None:
    assert tell("lease.polished", shine_s=90) == "lease.polished shine 1 min 30 s"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"slack_s": 9597}, "slack 2 h 39 min"),
        ({"left": "-0.000111908"}, "left -$0.0001"),
        ({"bid": "0.278", "floor": "0.25"}, "bid $0.278/h, floor $0.25/h"),
        ({"cost_of_waiting_per_h": "0.004148149"}, "cost of waiting $0.004/h"),
        ({"limit": "50", "would_be": "50.2"}, "limit 50, would be $50.20"),
        ({"estimate": "0.263012345"}, "estimate 0.263"),
        ({"status": "over_budget", "from": "pending"}, "status over budget, from pending"),
        ({"machine_id": "00123.4567891", "instance_id": None}, "machine id 00123.4567891"),
        ({}, ""),
    ],
)
def test_numbers_are_for_people(fields: dict[str, Any], shown: str) -> None:
    assert text.numbers(fields) == shown
