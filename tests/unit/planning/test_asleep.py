"""What plans and doctor say of machines that work on unheard."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.domain.offer import DeadMan
from autopilot.planning.asleep import tell_permit
from tests.builders import capabilities

LONG = timedelta(hours=6)


@pytest.mark.parametrize(
    ("dead_man", "ttl", "is_proved", "told"),
    [
        (DeadMan.DESTROYS, LONG, True, "up to 6 h, as far as"),
        (DeadMan.DESTROYS, LONG, True, "is held back for a day"),
        (DeadMan.DESTROYS, LONG, None, "up to 6 h, 15 min without a valid certificate"),
        (DeadMan.DESTROYS, LONG, False, "15 min: the market has no valid certificate"),
        (DeadMan.DESTROYS, timedelta(minutes=5), True, "5 min"),
        (DeadMan.POWERS_OFF, LONG, True, "15 min: it can only switch itself off"),
        (DeadMan.NONE, LONG, True, "as long as it may live"),
    ],
)
def test_how_long_and_what_holds_it_down(dead_man: DeadMan, ttl: timedelta, is_proved: bool | None, told: str) -> None:
    assert told in tell_permit(ttl, replace(capabilities(), dead_man=dead_man), is_proved)
