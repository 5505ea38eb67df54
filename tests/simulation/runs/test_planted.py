"""A simulator that cannot fail proves nothing: each planted bug is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autopilot.engine import reconcile
from tests.simulation.runs.bugs import BUGS, plant
from tests.simulation.runs.small import a_few_hours

QUICK = {"create_retried": "S1", "unreadable_is_empty": "S7", "no_pacing": "S12"}


def test_there_are_bugs_enough() -> None:
    assert len(BUGS) >= 25


@pytest.mark.parametrize("bug", QUICK)
def test_a_bug_is_found(bug: str) -> None:
    found = (a_few_hours(seed, bug).failed for seed in range(1, 30))
    assert any(QUICK[bug] in failed for failed in found)


def test_a_bug_is_there_only_while_it_is_planted() -> None:
    before = reconcile.SETTLE
    with plant("no_settle_window"):
        assert before != reconcile.SETTLE
    assert before == reconcile.SETTLE


@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_still_fits_the_code_that_it_changes(bug: str) -> None:
    targets = [(target, attribute, getattr(target, attribute)) for target, attribute, _ in BUGS[bug].patches()]
    with plant(bug):
        assert any(getattr(target, attribute) is not before for target, attribute, before in targets)
    assert all(getattr(target, attribute) is before for target, attribute, before in targets)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_every_bug_is_found_by_two_hundred_seeds_or_a_story() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--planted", "all", "--seeds", "200"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
