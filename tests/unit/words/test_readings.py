"""What machines read of themselves, as people read it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from autopilot.answers.jobs import Gpu, Lease, NewestReadings, Recognised
from autopilot.words import readings
from tests.unit.cli.sample_daemon import sample_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GIB = 1 << 30


def a_gpu(busy: float | None = 0.97, used: int | None = 21 * GIB, total: int | None = 24 * GIB) -> Gpu:
    return Gpu(busy=busy, memory_used=used, memory_total=total)


def a_lease(**changes: Any) -> Lease:
    at = datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC)
    taken = NewestReadings(at=at, gpus=[a_gpu()], disk_free=12 * 10**9, load=3.14, still_s=0)
    main = sample_job().main
    assert main is not None
    return replace(main, readings=replace(taken, **changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "GPU 97%, 21 of 24 GB; disk 12 GB free; load 3.1"),
        ({"gpus": None}, "GPU unknown; disk 12 GB free; load 3.1"),
        (
            {"recognised": Recognised(form="bar", step=450, fraction=0.45, confidence=0.9)},
            "GPU 97%, 21 of 24 GB; disk 12 GB free; load 3.1; a bar in the output says 45% (step 450, 90% sure)",
        ),
        (
            {"recognised": Recognised(form="saved", step=None, fraction=0.45, confidence=0.9, left_s=12000, seen=0.1)},
            "GPU 97%, 21 of 24 GB; disk 12 GB free; load 3.1; trainer_state.json says 45% (3 h 20 min left, 90% sure)",
        ),
        ({"disk_free": None, "load": None}, "GPU 97%, 21 of 24 GB"),
        ({"gpus": [a_gpu(None, None)]}, "GPU ?; disk 12 GB free; load 3.1"),
        ({"gpus": [a_gpu(), a_gpu(0.0, 0)]}, "2 GPUs 97% 0%, 21 of 48 GB; disk 12 GB free; load 3.1"),
        ({"gpus": [a_gpu(0.5)] * 8}, "8 GPUs 50% on average, 168 of 192 GB; disk 12 GB free; load 3.1"),
        ({"gpus": [a_gpu(None)] * 5}, "5 GPUs ? ? ? ? ?, 105 of 120 GB; disk 12 GB free; load 3.1"),
        (
            {"at": datetime(2026, 1, 1, 11, 50, tzinfo=UTC)},
            "GPU 97%, 21 of 24 GB; disk 12 GB free; load 3.1 (10 min ago)",
        ),
    ],
)
def test_a_line_for_a_machine(changes: dict[str, Any], told: str) -> None:
    assert readings.tell(a_lease(**changes), NOW) == told


@pytest.mark.parametrize("lease", [None, replace(a_lease(), readings=None)])
def test_what_was_never_read_is_not_told(lease: Lease | None) -> None:
    assert readings.tell(lease, NOW) == ""
