"""How many seeds it takes to find each planted bug."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from autopilot.simulation.campaign import prepare
from autopilot.simulation.run import run
from autopilot.simulation.scenario import LENGTH_S, drawn


@dataclass(frozen=True, slots=True)
class Catch:
    """``seeds`` None: not found within the seeds that were tried."""

    bug: str
    seeds: int | None
    checkers: tuple[str, ...] = ()


def caught(bug: str, first: int, most: int, length_s: float = LENGTH_S) -> Catch:
    """Seed after seed until a checker fires. ``length_s``: how long faults are injected in each."""
    for number in range(most):
        scenario = replace(drawn(first + number), length_s=length_s)
        result = run(first + number, scenario, bug=bug, stop_at_first=True)
        if result.violations:
            return Catch(bug, number + 1, tuple(sorted(result.failed)))
    return Catch(bug, None)


def hunt(bugs: Iterable[str], first: int, most: int, processes: int, length_s: float = LENGTH_S) -> Iterator[Catch]:
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=prepare) as pool:
        for future in [pool.submit(caught, bug, first, most, length_s) for bug in bugs]:
            yield future.result()
