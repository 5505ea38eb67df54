"""Before its first machine a job waits a moment for bids that are being learnt, unless its deadline presses."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from autopilot.domain.actions import Acquire
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.policy.decide import decide
from tests.builders import HOUR, START, a_job, a_lease, a_market, a_spec, an_offer

LEARNING = Outlook(is_learning=True)


def decided(outlook: Outlook, *leases: Any, due: datetime = START + 30 * HOUR) -> tuple[list[type], dict[str, Any]]:
    """The kinds of action, and what is noted of floors."""
    job = a_job(*leases, spec=a_spec(work_estimate=10 * HOUR, deadline=due))
    decision = decide(job, replace(a_market(an_offer()), outlook=outlook), START, Params().tune({"least_stretch": 1.0}))
    noted = [dict(note.numbers) for note in decision.notes if note.topic == "floors"]
    return [type(action) for action in decision.actions], noted[0] if noted else {}


def test_a_job_with_slack_waits_and_says_for_what() -> None:
    assert decided(LEARNING) == ([], {"recorded_h": None, "learnt": 0, "learning": 1})
    assert decided(Outlook()) == ([Acquire], {})


def test_a_job_that_is_pressed_or_has_a_machine_does_not_wait() -> None:
    assert decided(LEARNING, due=START + 10.7 * HOUR)[0] == [Acquire]
    assert decided(LEARNING, a_lease())[1]["learning"] == 1


@pytest.mark.parametrize("hours", [0.2, 5.4])
def test_a_rule_that_bids_for_want_of_record_says_how_much_there_is(hours: float) -> None:
    kinds, noted = decided(Outlook(recorded_h=hours))
    assert kinds == [Acquire]
    assert noted == {"recorded_h": round(hours), "learnt": 0, "learning": 0}
