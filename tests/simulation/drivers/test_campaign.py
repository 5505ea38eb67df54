"""A campaign of many seeds is cut off and goes on: what the results file has is counted and not run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.simulation.drivers import campaign as campaigns
from tests.simulation.drivers.campaign import campaign
from tests.simulation.runs.run import Result
from tests.simulation.runs.small import a_few_hours

pytestmark = pytest.mark.slow


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds in the order in which they ran, an hour each; a line for each pair of them."""
    seeds_run: list[int] = []

    def results(seeds: Iterable[int], processes: int) -> Iterator[Result]:
        for seed in seeds:
            seeds_run.append(seed)
            yield a_few_hours(seed, hours=1.0)

    monkeypatch.setattr(campaigns, "results", results)
    monkeypatch.setattr(campaigns, "PER_LINE", 2)
    return seeds_run


def test_a_line_for_so_many_seeds_and_none_twice(ran: list[int], tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first = campaign(1, 3, 1, file)
    assert ran == [1, 2, 3]
    assert first.verdict().startswith("seeds=3 faults=")
    assert [json.loads(line)["seeds"] for line in file.read_text().splitlines()] == [2, 1]

    whole = campaign(1, 4, 1, file)
    assert ran == [1, 2, 3, 3, 4], "the line that is not whole is run again"
    assert (whole.seeds, whole.failed.total()) == (4, 0)
    assert whole.faults.total() > first.faults.total()


def test_seeds_of_other_code_count_for_nothing(ran: list[int], tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    campaign(1, 2, 1, file)
    line = json.loads(file.read_text())
    file.write_text(json.dumps({**line, "code": "0123456789ab"}) + "\n")
    assert campaign(1, 2, 1, file).seeds == 2
    assert ran == [1, 2, 1, 2]
