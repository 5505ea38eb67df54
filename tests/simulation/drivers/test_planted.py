"""A simulator that cannot fail proves nothing: each planted bug is found."""

from __future__ import annotations

import pytest

from autopilot.engine import reconcile
from tests.simulation.drivers.hunt import caught, read_kept
from tests.simulation.runs.bugs import BUGS, plant


def test_there_are_bugs_enough() -> None:
    assert len(BUGS) >= 25


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


SEEDS = 12
"""Decisions change, and with them where a bug shows. After its kept place, all stories and so many seeds are tried."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_is_found(bug: str) -> None:
    catch = caught(bug, read_kept().get(bug), 1, SEEDS)
    assert catch.place, f"look for it: python -m tests.simulation --planted {bug} --seeds 200"
