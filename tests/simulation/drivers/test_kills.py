"""kill -9: at some steps of one story here, of all of them behind ``make check``.

``python -m tests.simulation --kills --pairs 40`` kills at every step, and ``--dead --seeds 300`` for good.
"""

from __future__ import annotations

import pytest

from tests.simulation.drivers.dead import leave_all
from tests.simulation.drivers.kills import points, run_killed
from tests.simulation.ground.stories import STORIES


def test_there_are_stories_enough() -> None:
    assert len(STORIES) >= 20


@pytest.mark.slow
def test_a_kill_at_some_steps_of_a_create_whose_answer_is_lost() -> None:
    story = "create takes effect, answer lost"
    whole, steps = points(story)
    assert not whole.violations
    assert len(steps) > 40
    for step in (*steps[:8], *steps[8::16]):
        assert not run_killed(story, (step,)).violations, f"killed after step {step}"


@pytest.mark.slow
def test_the_enumeration_finds_a_create_that_is_sent_before_its_intent_is_committed() -> None:
    _, steps = points("create and finish")
    assert any(run_killed("create and finish", (step,), bug="intent_not_committed").violations for step in steps[:10])


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_a_kill_at_steps_all_along_every_story(story: str) -> None:
    whole, steps = points(story)
    assert not whole.violations
    for step in steps[:: max(len(steps) // 8, 1)]:
        assert not run_killed(story, (step,)).violations, f"killed after step {step}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 31, 10))
def test_machines_of_a_daemon_that_is_dead_for_good_end_themselves(first: int) -> None:
    assert not [(one.seed, one.violations) for one in leave_all(range(first, first + 10), 1) if one.violations]
