"""Machines that defences of their own would end before a seed shows the harm: stories in which those do not reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.checks.invariants import ON_ITS_WAY_S
from tests.simulation.drivers.kills import SEED
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.run import Play, run

FOUND = {
    "no_sweep": ("machine from nowhere", "L1"),
    "duplicate_overlooked": ("create makes two, one never starts", "S2"),
    "permit_restarts": ("dead for an hour, its machine sleeps and wakes", "S10"),
    "old_orders_renew": ("dead for an hour", "S10"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", FOUND)
def test_a_machine_left_running_is_found(bug: str) -> None:
    story, checker = FOUND[bug]
    assert checker in run(SEED, STORIES[story], bug=bug, stop_at_first=True).failed


@pytest.mark.slow
@pytest.mark.parametrize("story", [story for story, _ in FOUND.values()])
def test_nothing_is_left_of_them(story: str) -> None:
    assert not run(SEED, STORIES[story]).violations


def test_what_is_released_while_the_end_is_looked_at_is_no_leak_yet() -> None:
    """Its destroy is on its way. Where the market never carries it out, the machine is one when a while has passed."""
    story = replace(STORIES["cancelled while it runs"], script={"D1": range(1000)})
    found: list[set[str]] = []

    async def look_twice(play: Play) -> None:
        play.begin()
        world = play.world
        while not world.committed.get("leases") or any(each.is_wanted for each in world.committed["leases"].values()):
            await play.watch(1.0)
        for wait_s in (0.0, ON_ITS_WAY_S + 1.0):
            await play.watch(wait_s)
            assert len(list(world.boxes())) == 1
            play.check_converged(world.now_s)
            found.append({each.checker for each in world.check.violations})

    run(SEED, story, play=look_twice)
    assert found == [set(), {"L1"}]
