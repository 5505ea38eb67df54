"""How many seeds it takes to find each planted bug."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from autopilot.simulation.campaign import prepare
from autopilot.simulation.run import run


@dataclass(frozen=True, slots=True)
class Catch:
    """``seeds`` None: not found within the seeds that were tried."""

    bug: str
    seeds: int | None
    checkers: tuple[str, ...] = ()


def caught(bug: str, first: int, most: int) -> Catch:
    """Seed after seed until a checker fires."""
    for number in range(most):
        result = run(first + number, bug=bug, stop_at_first=True)
        if result.violations:
            return Catch(bug, number + 1, tuple(sorted(result.failed)))
    return Catch(bug, None)


def hunt(bugs: Iterable[str], first: int, most: int, processes: int) -> Iterator[Catch]:
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=prepare) as pool:
        for future in [pool.submit(caught, bug, first, most) for bug in bugs]:
            yield future.result()
