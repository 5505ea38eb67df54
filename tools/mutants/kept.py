"""What each mutant came to: a line of JSON each, kept with the code that it is about."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutants.table import ROOT

RESULTS = ROOT / "docs/research/mutants.jsonl"
SURVIVORS = Path(__file__).with_name("survivors.toml")
LEAST_DRAWN = 200
LEAST_KILLED = 0.9

_WHAT_RUNS = ("autopilot", "packages/lab/autopilot_lab", "tests")


@dataclass(frozen=True, slots=True)
class Code:
    """Two commits that differ in documents alone have the same ``tree``."""

    commit: str
    tree: str

    @classmethod
    def of(cls, repository: Path, commit: str) -> Code:
        def git(name: str) -> str:
            command = ["git", "rev-parse", "--short=12", name]
            return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.strip()

        return cls(git(commit), "/".join(git(f"{commit}:{path}") for path in _WHAT_RUNS))


@dataclass(frozen=True, slots=True)
class Line:
    code: str
    """``Code.tree``"""
    commit: str
    mutant: str
    path: str
    scope: str
    line: int
    change: str
    stage: str
    """Which noticed it: own, wider, seeds; empty: none, it survived."""
    by: str
    """The test, or the seed and its invariant."""
    seconds: float

    @property
    def is_killed(self) -> bool:
        return bool(self.stage)


def append(path: Path, line: Line) -> None:
    """In one write, so that shards that run side by side do not cut each other's lines."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")


def read(path: Path, code: Code) -> dict[str, Line]:
    """The lines of that code by mutant; empty if there is no file yet."""
    if not path.exists():
        return {}
    lines = (Line(**json.loads(text)) for text in path.read_text().splitlines())
    return {line.mutant: line for line in lines if line.code == code.tree}


def reasons(path: Path = SURVIVORS) -> dict[str, str]:
    """Why a mutant may live, by its id."""
    return {one["id"]: one["why"] for one in tomllib.loads(path.read_text()).get("survivor", ())}


def is_enough(drawn: Sequence[str], lines: Mapping[str, Line], why: Mapping[str, str]) -> bool:
    """Whether so many are drawn, all have run, enough were killed, and each that was not has a reason."""
    found = [lines[mutant] for mutant in drawn if mutant in lines]
    killed = sum(line.is_killed for line in found)
    named = all(line.is_killed or line.mutant in why for line in found)
    return len(drawn) >= LEAST_DRAWN and len(found) == len(drawn) and killed >= LEAST_KILLED * len(drawn) and named


def report(paths: Mapping[str, Sequence[str]], lines: Mapping[str, Line], why: Mapping[str, str]) -> Iterator[str]:
    """``paths`` are the drawn mutants of each module."""
    yield f"{'module':<42}{'drawn':>6}{'killed':>8}{'survived':>10}{'not run':>9}{'killed of run':>15}"
    for path, drawn in paths.items():
        yield _row(path, drawn, lines)
    everything = [mutant for drawn in paths.values() for mutant in drawn]
    yield _row("all", everything, lines)
    for line in (lines[mutant] for mutant in everything if mutant in lines and not lines[mutant].is_killed):
        yield f"\n{line.mutant} survived in {line.path}:{line.line} {line.scope}: {why.get(line.mutant, 'NO REASON')}"
        yield line.change
    for mutant in sorted(mutant for mutant in why if mutant in lines and lines[mutant].is_killed):
        yield f"\n{mutant} has a reason to live and is killed by {lines[mutant].by}: take the reason away"
    for mutant in sorted(why.keys() - set(everything)):
        yield f"\n{mutant} has a reason to live and is not drawn any more: take the reason away"


def _row(name: str, drawn: Iterable[str], lines: Mapping[str, Line]) -> str:
    drawn = list(drawn)
    run = [lines[mutant] for mutant in drawn if mutant in lines]
    killed = sum(line.is_killed for line in run)
    share = f"{killed / len(run):.0%}" if run else ""
    return f"{name:<42}{len(drawn):>6}{killed:>8}{len(run) - killed:>10}{len(drawn) - len(run):>9}{share:>15}"
