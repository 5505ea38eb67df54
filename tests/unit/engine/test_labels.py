"""What a label says by itself: whose machine it is and since when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.clock import ManualClock
from autopilot.domain.labels import LabelParts, is_ours, label_for, read_label
from autopilot.ids import UlidIds

MOMENTS = st.integers(0, 253_402_300_799_999).map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC))


@given(MOMENTS)
def test_a_label_tells_its_installation_and_its_moment(moment: datetime) -> None:
    parts = read_label(label_for("k3v9x2m4", UlidIds(ManualClock(moment)).new()))
    assert parts is not None
    assert parts.install_id == "k3v9x2m4"
    assert abs((parts.made_at - moment).total_seconds()) <= 0.001


@pytest.mark.parametrize(
    "label",
    [
        "",
        "my own training",
        "ap1",
        "ap1.k3v9x2m4",
        "ap1..01KDVDNRY4R11887CN5CG1S8J6",
        "ap2.k3v9x2m4.01KDVDNRY4R11887CN5CG1S8J6",
        "ap1.k3v9x2m4.01KDVDNRY4R11887CN5CG1S8J",
        "ap1.k3v9x2m4.01kdvdnry4r11887cn5cg1s8j6",
        "ap1.k3v9x2m4.01KDVDNRY4R11887CN5CG1S8J6.more",
        "ap1.k3v9x2m4.ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "copy of ap1.k3v9x2m4.01KDVDNRY4R11887CN5CG1S8J6",
    ],
)
def test_no_other_label_is_read(label: str) -> None:
    assert read_label(label) is None


@given(st.text(max_size=80))
def test_any_text_is_a_label_or_none(text: str) -> None:
    parts = read_label(text)
    assert parts is None or (isinstance(parts, LabelParts) and is_ours(text, parts.install_id))
