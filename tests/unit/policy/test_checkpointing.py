"""How often to save: by Young and Daly, and never so seldom that more than ``max_loss`` could be lost."""

from __future__ import annotations

from datetime import timedelta
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.policy.checkpointing import SHORTEST, UPLOAD_DRAG, checkpoint_interval

USUAL = timedelta(minutes=10)


def test_it_is_young_s_and_daly_s() -> None:
    interval = checkpoint_interval(USUAL, None, 20.0, 100.0, hazard_per_h=0.1)
    assert interval.total_seconds() == pytest.approx(sqrt(2 * (20 + UPLOAD_DRAG * 100) * 36_000))


def test_before_anything_is_measured_it_is_the_usual_one() -> None:
    assert checkpoint_interval(USUAL, None, None, None, 1.0) == USUAL
    assert checkpoint_interval(USUAL, timedelta(minutes=5), None, None, 1.0) == timedelta(minutes=5)


def test_a_machine_that_is_lost_more_often_saves_more_often() -> None:
    calm, rough = (checkpoint_interval(USUAL, None, 10.0, 60.0, hazard) for hazard in (0.01, 1.0))
    assert calm == pytest.approx(10 * rough, rel=1e-6)


def test_an_upload_that_takes_longer_than_the_interval_is_not_overtaken() -> None:
    assert checkpoint_interval(USUAL, None, 10.0, 3600.0, 10.0) >= timedelta(seconds=3610)


@given(
    st.floats(0, 1e5),
    st.floats(0, 1e5),
    st.floats(0, 100),
    st.none() | st.timedeltas(timedelta(minutes=1), timedelta(days=2)),
)
def test_a_loss_is_bounded(save_s: float, upload_s: float, hazard: float, max_loss: timedelta | None) -> None:
    interval = checkpoint_interval(USUAL, max_loss, save_s, upload_s, hazard)
    assert interval >= SHORTEST
    taken = timedelta(seconds=save_s + upload_s)
    if max_loss is not None and max_loss - taken >= SHORTEST:
        assert interval + taken <= max_loss + timedelta(milliseconds=1)
