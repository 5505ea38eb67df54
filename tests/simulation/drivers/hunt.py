"""How many seeds it takes to find each planted bug."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from autopilot.workers import workers
from tests.simulation.drivers.campaign import prepare
from tests.simulation.drivers.kills import SEED
from tests.simulation.ground.scenario import LENGTH_S, draw_scenario
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.run import run


@dataclass(frozen=True, slots=True)
class Catch:
    """``seeds`` None: not found within the seeds that were tried. ``story``: the one that found it then."""

    bug: str
    seeds: int | None
    checkers: tuple[str, ...] = ()
    story: str = ""

    @property
    def is_found(self) -> bool:
        return self.seeds is not None or bool(self.story)


def caught(bug: str, first: int, most: int, length_s: float = LENGTH_S) -> Catch:
    """Seed after seed until a checker fires, then the stories, on two markets. ``length_s``: how long faults are
    injected in each."""
    for number in range(most):
        scenario = replace(draw_scenario(first + number), length_s=length_s)
        result = run(first + number, scenario, bug=bug, stop_at_first=True)
        if result.violations:
            return Catch(bug, number + 1, tuple(sorted(result.failed)))
    for market, (story, scenario) in product((SEED, first), STORIES.items()):
        result = run(market, scenario, bug=bug, stop_at_first=True)
        if result.violations:
            return Catch(bug, None, tuple(sorted(result.failed)), story)
    return Catch(bug, None)


def hunt(bugs: Iterable[str], first: int, most: int, processes: int, length_s: float = LENGTH_S) -> Iterator[Catch]:
    with workers(processes, prepare) as pool:
        for future in [pool.submit(caught, bug, first, most, length_s) for bug in bugs]:
            yield future.result()
