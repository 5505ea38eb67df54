"""Many sieges on all cores, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from autopilot.workers import workers
from tests.simulation.adversary.siege import Siege, lay_siege
from tests.simulation.drivers.campaign import prepare


@dataclass(slots=True)
class Sum:
    sieges: int = 0
    sequences: int = 0
    calls: int = 0
    jobs: int = 0
    machines: int = 0
    kills: int = 0
    faults: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    most: Decimal = Decimal(0)
    excused: Decimal = Decimal(0)
    failed: int = 0

    def add(self, siege: Siege) -> None:
        assert siege.result is not None, "it is over"
        self.sieges += 1
        self.sequences += siege.sequences
        self.calls += siege.calls
        self.jobs += siege.jobs
        self.machines += siege.machines
        self.kills += siege.result.lives - 1
        self.faults += siege.result.faults.total()
        self.answers.update(siege.answers)
        self.most = max(self.most, siege.most)
        self.excused += siege.excused
        self.failed += any(siege.found)

    def verdict(self) -> str:
        answers = " ".join(f"{status}={count}" for status, count in sorted(self.answers.items()))
        return (
            f"sequences={self.sequences} calls={self.calls} jobs={self.jobs} machines={self.machines} "
            f"faults={self.faults} restarts={self.kills} failed={self.failed}; answers {answers}; "
            f"most of a dollar {self.most:.4f}, excused {self.excused:.4f}"
        )


def besiege(seeds: Iterable[int], processes: int) -> Iterator[Siege]:
    with workers(processes, prepare) as pool:
        yield from pool.map(lay_siege, seeds, chunksize=1)
