"""kill -9 at every step of a story, not at some of them.

What a kill takes with it is the daemon's memory alone. Two kills between which nothing came about that outlives the
daemon (a commit, a request on its way, an effect at a market, an object in the store) leave the same world behind, so
one of them covers both; ``every_step`` still tries each one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autopilot.workers import workers
from tests.simulation.checks.invariants import Violation
from tests.simulation.drivers.campaign import prepare
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.run import Result, run
from tests.simulation.runs.world import World
from tests.simulation.virtual.loop import Process

SEED = 7
DOWN_S = 20.0


@dataclass(frozen=True, slots=True)
class Killed:
    """``at``: the steps, counted over all daemons, after which it was killed."""

    story: str
    at: tuple[int, ...]
    violations: tuple[Violation, ...]


class _Steps:
    """Counts the steps of all daemons, notes after which of them something lasting was new, and kills at some."""

    def __init__(self, kills: Iterable[int] = ()) -> None:
        self.count = 0
        self.lasting: list[int] = []
        self._kills = frozenset(kills)
        self._version = 0

    def watch(self, world: World) -> None:
        def on_step(_: Process) -> None:
            self.count += 1
            if world.version != self._version:
                self._version = world.version
                self.lasting.append(self.count)
            if self.count in self._kills:
                world.kill_daemon(DOWN_S)

        world.loop.on_step = on_step


def points(story: str, *, every_step: bool = False) -> tuple[Result, list[int]]:
    """How the story goes by itself, and the steps after which a kill is tried."""
    steps = _Steps()
    whole = run(SEED, STORIES[story], arrange=steps.watch)
    return whole, list(range(1, steps.count + 1)) if every_step else steps.lasting


def run_killed(story: str, at: tuple[int, ...], bug: str | None = None) -> Killed:
    result = run(SEED, STORIES[story], bug=bug, arrange=_Steps(at).watch)
    return Killed(story, at, result.violations)


def _run_killed(job: tuple[str, tuple[int, ...]]) -> Killed:
    return run_killed(*job)


def kill_everywhere(
    stories: Iterable[str], processes: int, *, every_step: bool = False, pairs_each: int = 0
) -> Iterator[Killed]:
    """Every point of every story, and so many pairs of each on top."""
    jobs: list[tuple[str, tuple[int, ...]]] = []
    for story in stories:
        whole, steps = points(story, every_step=every_step)
        yield Killed(story, (), whole.violations)
        jobs += [(story, (step,)) for step in steps]
        jobs += [(story, pair) for pair in pairs(story, steps, pairs_each)]
    if processes == 1:
        yield from map(_run_killed, jobs)
        return
    with workers(processes, prepare) as pool:
        yield from pool.map(_run_killed, jobs, chunksize=8)


def pairs(story: str, steps: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Sampled: the second kill is in what the first left behind, often in its recovery."""
    rng = random.Random(f"pairs/{story}")
    for _ in range(count):
        first = rng.choice(steps)
        yield first, first + rng.choice((rng.randint(1, 60), rng.randint(1, 2000)))
