"""``[history] watch``: GPUs whose floors are recorded at all times."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.config.settings import MOST_WATCHED, Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice
from autopilot.engine.watching import Watching, watch_queries
from autopilot.service.certificates import certify_rules
from autopilot.service.wiring import engine_config


def read(home: Path, watch: str) -> Settings:
    path = home / "autopilot.toml"
    path.write_text(f"[history]\nwatch = {watch}\n")
    return load_settings(path)


def test_nothing_is_watched_unless_it_is_set(home: Path) -> None:
    assert read(home, "[]").history.watched == ()
    assert Watching(()).kinds == frozenset()


def test_gpus_are_written_as_in_a_job_file_and_each_model_is_searched_by_itself(home: Path) -> None:
    settings = read(home, '["RTX 4090:1", "A100:8"]')
    watched = engine_config(settings, "me", certify_rules(settings)).watched
    assert watched == (GpuChoice("RTX 4090", 1), GpuChoice("A100", 8))
    kinds = [query.gpus for query in watch_queries(watched)]
    assert kinds[0] == (("RTX 4090", 1),)
    assert len(kinds) > 2, "a name of several models means them all"
    assert all(count == 8 for ((_, count),) in kinds[1:])
    assert all(query.floors_only and query.verified_only for query in watch_queries(watched))


@pytest.mark.parametrize("watch", ['["RTX 4090:x"]', '[""]', str(["A100:1"] * (MOST_WATCHED + 1)), '"RTX 4090"'])
def test_what_is_no_gpu_or_too_much_is_refused_by_its_place(home: Path, watch: str) -> None:
    with pytest.raises(UserError) as raised:
        read(home, watch)
    assert "history.watch" in str(raised.value)
