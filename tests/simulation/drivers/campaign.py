"""Many seeds on all cores: what was found, how fast, and a line for every hundred.

Replays depend on the order of sets of strings, so every process runs with the same hash seed.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from autopilot.domain.lease import LEASE_TRANSITIONS
from autopilot.domain.money import ZERO
from autopilot.workers import workers
from tests.simulation.ground.faults import CATALOGUE
from tests.simulation.runs.run import Result, run

HASH_SEED = "0"
PER_LINE = 100
SECONDS_PER_YEAR = 365.25 * 86_400
VERDICTS = {
    "leaks": ("L1", "S5", "S10"),
    "doubles": ("S1", "S2"),
    "overruns": ("S3",),
    "lost": ("S8",),
}


def prepare() -> None:
    """A process that only simulates: few collections."""
    gc.set_threshold(50_000, 20, 50)


def with_fixed_hashes(arguments: list[str], program: str = "tests.simulation") -> int | None:
    """Run ``program`` again with the hash seed that replays need; None if it has it."""
    if os.environ.get("PYTHONHASHSEED") == HASH_SEED:
        return None
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    return subprocess.run([sys.executable, "-m", program, *arguments], env=environment).returncode


@dataclass(slots=True)
class Tally:
    """What a number of seeds came to."""

    seeds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """Seeds by checker."""
    transitions: Counter[str] = field(default_factory=Counter)
    excused: Decimal = ZERO
    with_excuse: int = 0
    simulated_s: float = 0.0
    fewest_faults: int | None = None
    began_at: float = field(default_factory=time.monotonic)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.faults.update(result.faults)
        self.failed.update(result.failed)
        self.transitions.update({f"{was} → {became}": n for (was, became), n in result.transitions.items()})
        excused = sum(result.excused.values(), ZERO)
        self.excused += excused
        self.with_excuse += excused > 0
        self.simulated_s += result.simulated_s
        self._fewest(result.faults.total())

    def add_line(self, line: Mapping[str, Any]) -> None:
        """Seeds of which the results file tells."""
        self.seeds += line["seeds"]
        self.faults.update(line["faults"])
        self.failed.update(line["violations"])
        self.transitions.update(line["transitions"])
        self.excused += Decimal(line["excused_dollars"])
        self.with_excuse += line["seeds_with_excuse"]
        self.simulated_s += line["simulated_years"] * SECONDS_PER_YEAR
        self._fewest(line["fewest_faults"])

    def _fewest(self, number: int) -> None:
        self.fewest_faults = number if self.fewest_faults is None else min(self.fewest_faults, number)

    def line(self, first: int, code: Code) -> str:
        """For the results file."""
        took_s = time.monotonic() - self.began_at
        return json.dumps(
            {
                "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "commit": code.commit,
                "code": code.tree,
                "first_seed": first,
                "seeds": self.seeds,
                "violations": dict(sorted(self.failed.items())),
                "fewest_faults": self.fewest_faults,
                "faults": dict(sorted((row, n) for row, n in self.faults.items() if n)),
                "transitions": dict(sorted(self.transitions.items())),
                "excused_dollars": str(self.excused),
                "seeds_with_excuse": self.with_excuse,
                "seeds_per_s": round(self.seeds / took_s, 3),
                "simulated_years": round(self.simulated_s / SECONDS_PER_YEAR, 3),
            }
        )

    def unreached(self) -> list[str]:
        """Rows of the catalogue that nothing came of, and changes of a lease's state that were never seen."""
        rows = [f"row {row.id}" for row in CATALOGUE if not self.faults[row.id]]
        arrows = [f"{was} → {became}" for was, targets in LEASE_TRANSITIONS.items() for became in sorted(targets)]
        return rows + [arrow for arrow in arrows if not self.transitions[arrow]]

    def verdict(self) -> str:
        """The last line of a campaign."""
        counts = {name: sum(self.failed[checker] for checker in checkers) for name, checkers in VERDICTS.items()}
        words = " ".join(f"{name}={number}" for name, number in counts.items())
        return f"seeds={self.seeds} faults={self.faults.total()} {words}"


_WHAT_RUNS = ("autopilot", "packages/lab/autopilot_lab", "tests/simulation")


@dataclass(frozen=True, slots=True)
class Code:
    """What runs: two commits that differ in documents or other tests alone have the same ``tree``."""

    commit: str
    tree: str
    """Of the product, of the laboratory and of the simulator in git, with a plus sign when files differ from it."""

    @classmethod
    def of_this(cls) -> Code:
        root = Path(__file__).parents[3]

        def git(*arguments: str) -> str:
            return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True).stdout.strip()

        changed = git("status", "--porcelain", "--untracked-files=no", "--", *_WHAT_RUNS)
        trees = [git("rev-parse", "--short=12", f"HEAD:{path}") for path in _WHAT_RUNS]
        return cls(
            git("rev-parse", "--short=12", "HEAD") or "unknown",
            ("/".join(trees) if all(trees) else "unknown") + "+" * bool(changed),
        )


def results(seeds: Iterable[int], processes: int) -> Iterator[Result]:
    """In the order of the seeds."""
    if processes == 1:
        prepare()
        yield from map(run, seeds)
        return
    with workers(processes, prepare) as pool:
        yield from pool.map(run, seeds, chunksize=1)


def campaign(first: int, count: int, processes: int, results_path: Path | None) -> Tally:
    """Runs the seeds that the results file does not have yet for this code; prints what fails as it goes.

    The answer counts those too that the file has.
    """
    code = Code.of_this()
    done = _done(results_path, code, first, count) if results_path is not None else {}
    whole, part = Tally(), Tally()
    for line in done.values():
        whole.add_line(line)
    seeds = [seed for seed in range(first, first + count) if (seed - first) // PER_LINE * PER_LINE + first not in done]
    if done:
        print(f"{whole.seeds} seeds are in {results_path} already")
    part_first = seeds[0] if seeds else first
    for number, result in enumerate(results(seeds, processes), start=1):
        whole.add(result)
        part.add(result)
        for violation in result.violations[:5]:
            print(f"seed {result.seed}: {violation.checker} at {violation.at_s:.0f} s: {violation.what}", flush=True)
        if results_path is not None and (part.seeds == PER_LINE or number == len(seeds)):
            with results_path.open("a") as file:
                file.write(part.line(part_first, code) + "\n")
            part = Tally()
            part_first = seeds[number] if number < len(seeds) else first
    return whole


def _done(path: Path, code: Code, first: int, count: int) -> dict[int, Mapping[str, Any]]:
    """Whole lines of that code by their first seeds, of those that are asked for."""
    if not path.exists():
        return {}
    asked = range(first, first + count - PER_LINE + 1, PER_LINE)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        line["first_seed"]: line
        for line in lines
        if line.get("code") == code.tree and line["seeds"] == PER_LINE and line["first_seed"] in asked
    }
