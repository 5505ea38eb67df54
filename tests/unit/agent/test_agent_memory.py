"""What an agent's memory of its permit is worth after its host was started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.agent.shipped.memory import Memory


def remember(place: Path, host: str) -> Memory:
    memory = Memory(str(place), str(place / "container"))
    memory.note_host(host)
    return memory


def test_on_the_same_host_the_end_of_the_permit_is_known(tmp_path: Path) -> None:
    remember(tmp_path, "boot-1").save(permit_ttl_s=21_600, permit_ends_at=30_000.0)
    again = remember(tmp_path, "boot-1")
    assert (again["permit_ttl_s"], again["permit_ends_at"]) == (21_600, 30_000.0)


@pytest.mark.parametrize("host", ["boot-2", ""])
def test_after_a_start_of_the_host_a_short_one_is_left(tmp_path: Path, host: str) -> None:
    """Its clock began again: nothing tells how much of a permit of hours has passed."""
    remember(tmp_path, "boot-1").save(permit_ttl_s=21_600, permit_ends_at=30_000.0)
    again = remember(tmp_path, host)
    assert (again["permit_ttl_s"], again["permit_ends_at"]) == (900, None)
