"""Many seeds on all cores: what was found, how fast, and a line for every thousand.

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
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path

from autopilot.domain.lease import LEASE_TRANSITIONS
from autopilot.domain.money import ZERO
from autopilot.simulation.faults import CATALOGUE
from autopilot.simulation.run import Result, run

HASH_SEED = "0"
PER_LINE = 1000
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


def with_fixed_hashes(arguments: list[str]) -> int | None:
    """Run this program anew with the hash seed that replays need; None when it has it."""
    if os.environ.get("PYTHONHASHSEED") == HASH_SEED:
        return None
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    return subprocess.run([sys.executable, "-m", "autopilot.simulation", *arguments], env=environment).returncode


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
        number = result.faults.total()
        self.fewest_faults = number if self.fewest_faults is None else min(self.fewest_faults, number)

    def line(self, first: int, commit: str) -> str:
        """For the results file."""
        took_s = time.monotonic() - self.began_at
        return json.dumps(
            {
                "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "commit": commit,
                "first_seed": first,
                "seeds": self.seeds,
                "violations": dict(sorted(self.failed.items())),
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


def commit_of_this() -> str:
    """The commit that runs, with a plus sign when files differ from it."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True).stdout.strip()

    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return name + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))


def results(seeds: Iterable[int], processes: int) -> Iterator[Result]:
    """In the order of the seeds."""
    if processes == 1:
        prepare()
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=prepare) as pool:
        yield from pool.map(run, seeds, chunksize=1)


def campaign(first: int, count: int, processes: int, results_path: Path | None) -> Tally:
    """Runs the seeds that the results file does not have yet for this commit; prints what fails as it goes."""
    commit = commit_of_this()
    done = _done(results_path, commit) if results_path is not None else set()
    whole, part, part_first = Tally(), Tally(), first
    seeds = [seed for seed in range(first, first + count) if (seed - first) // PER_LINE * PER_LINE + first not in done]
    if len(seeds) < count:
        print(f"{count - len(seeds)} seeds are in {results_path} already")
    part_first = seeds[0] if seeds else first
    for number, result in enumerate(results(seeds, processes), start=1):
        whole.add(result)
        part.add(result)
        for violation in result.violations[:5]:
            print(f"seed {result.seed}: {violation.checker} at {violation.at_s:.0f} s: {violation.what}", flush=True)
        if results_path is not None and (part.seeds == PER_LINE or number == len(seeds)):
            with results_path.open("a") as file:
                file.write(part.line(part_first, commit) + "\n")
            part, part_first = Tally(), result.seed + 1
    return whole


def _done(path: Path, commit: str) -> set[int]:
    """First seeds of the whole lines of that commit."""
    if not path.exists():
        return set()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["first_seed"] for line in lines if line["commit"] == commit and line["seeds"] == PER_LINE}
