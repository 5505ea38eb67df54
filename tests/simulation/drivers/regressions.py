"""Failing seeds made small, and kept: a seed, the rows of the catalogue that it needs, and how long it has to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.simulation.ground.faults import CATALOGUE
from tests.simulation.ground.scenario import HOUR_S, LENGTH_S, draw_scenario
from tests.simulation.runs.run import Result, run

SHORTEST_S = HOUR_S


@dataclass(frozen=True, slots=True)
class Case:
    """``why``: what it once showed."""

    seed: int
    off: tuple[str, ...] = ()
    length_s: float = LENGTH_S
    why: str = ""

    def run(self, bug: str | None = None) -> Result:
        scenario = replace(draw_scenario(self.seed), length_s=self.length_s)
        return run(self.seed, scenario, off=self.off, bug=bug)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Case:
        body = json.loads(path.read_text())
        return cls(body["seed"], tuple(body["off"]), body["length_s"], body["why"])


def shrink(seed: int, checker: str, bug: str | None = None, say: Callable[[str], None] = lambda _: None) -> Case:
    """The least that still violates ``checker``: rows are switched off one after the other, then the run is cut."""

    def fails(case: Case) -> bool:
        return checker in case.run(bug).failed

    case = Case(seed)
    if not fails(case):
        raise ValueError(f"seed {seed} does not violate {checker}")
    for row in CATALOGUE:
        smaller = replace(case, off=(*case.off, row.id))
        if fails(smaller):
            case = smaller
            say(f"without {row.id}")
    while case.length_s > SHORTEST_S:
        shorter = replace(case, length_s=case.length_s / 2)
        if not fails(shorter):
            break
        case = shorter
        say(f"in {case.length_s / HOUR_S:.1f} h")
    return replace(case, why=checker)
