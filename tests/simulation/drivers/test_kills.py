"""kill -9: at some steps of one story here, at every step of all of them behind ``make check``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.drivers.kills import points, run_killed
from tests.simulation.ground.stories import STORIES


def test_there_are_stories_enough() -> None:
    assert len(STORIES) >= 20


def test_a_kill_at_some_steps_of_a_create_whose_answer_is_lost() -> None:
    story = "create takes effect, answer lost"
    whole, steps = points(story)
    assert not whole.violations
    assert len(steps) > 40
    for step in (*steps[:8], *steps[8::16]):
        assert not run_killed(story, (step,)).violations, f"killed after step {step}"


def test_the_enumeration_finds_a_create_that_is_sent_before_its_intent_is_committed() -> None:
    _, steps = points("create and finish")
    assert any(run_killed("create and finish", (step,), bug="intent_not_committed").violations for step in steps[:10])


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_kill_at_every_step_of_every_story() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--kills", "--pairs", "40"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_machines_of_a_daemon_that_is_dead_for_good_end_themselves() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--dead", "--seeds", "300"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
