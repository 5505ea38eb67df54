"""Machines that stay after their job is over: played with a kill, given back, without the money for it, and to see
one destroy itself.
"""

from __future__ import annotations

import pytest

from tests.simulation.drivers.kills import SEED, points, run_killed
from tests.simulation.ground.stories import JOB, STORIES
from tests.simulation.runs.run import Result, run
from tests.simulation.runs.world import World

FOUND = {
    "hold_end_forgotten": "held until its hold is over",
    "hold_too_long": "held until its hold is over",
    "hold_unpaid": "no money to hold it",
}
ENDS = {
    "held until its hold is over": (True, "hold_over"),
    "held, and given back": (True, "user_released"),
    "no money to hold it": (False, "command_failed"),
}


def play(story: str) -> tuple[Result, World]:
    worlds: list[World] = []
    return run(SEED, STORIES[story], arrange=worlds.append), worlds[0]


@pytest.mark.parametrize("bug", FOUND)
def test_a_hold_that_goes_wrong_is_found(bug: str) -> None:
    assert "S26" in run(SEED, STORIES[FOUND[bug]], bug=bug, stop_at_first=True).failed


@pytest.mark.slow
@pytest.mark.parametrize("story", ENDS)
def test_a_machine_is_held_and_goes(story: str) -> None:
    result, world = play(story)
    assert not result.violations
    assert result.jobs == {JOB: "failed"}
    (lease,) = world.committed["leases"].values()
    assert (lease.held_until is not None, str(lease.reason)) == ENDS[story]


def test_a_machine_proves_its_market_by_going_at_the_end_of_its_permit() -> None:
    result, world = play("without a certificate, a permit is let lapse")
    assert not result.violations
    assert result.jobs == {JOB: "succeeded"}
    (lease,) = world.committed["leases"].values()
    assert (str(lease.reason), lease.ending.attempts) == ("proving", 0)


@pytest.mark.slow
def test_a_kill_at_some_steps_of_a_hold_and_its_end() -> None:
    story = "held until its hold is over"
    _, steps = points(story)
    for step in steps[-40::8]:
        assert not run_killed(story, (step,)).violations, f"killed after step {step}"
