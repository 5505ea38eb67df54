"""Machines that defences of their own would end before a seed shows the harm: stories in which those do not reach."""

from __future__ import annotations

import pytest

from tests.simulation.drivers.kills import SEED
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.run import run

FOUND = {
    "no_sweep": ("machine from nowhere", "L1"),
    "duplicate_overlooked": ("create makes two, one never starts", "S2"),
    "permit_begins_anew": ("dead for an hour, its machine sleeps and wakes", "S10"),
    "old_orders_renew": ("dead for an hour", "S10"),
}


@pytest.mark.parametrize("bug", FOUND)
def test_what_nobody_ends_is_found(bug: str) -> None:
    story, checker = FOUND[bug]
    assert checker in run(SEED, STORIES[story], bug=bug, stop_at_first=True).failed


@pytest.mark.parametrize("story", [story for story, _ in FOUND.values()])
def test_nothing_is_left_of_them(story: str) -> None:
    assert not run(SEED, STORIES[story]).violations
