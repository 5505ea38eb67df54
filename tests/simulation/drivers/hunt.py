"""Where each planted bug is found: by which seed, or by which story.

``found.json`` keeps that place, so that most tests need one run a bug. A hunt looks there first, then goes through the
stories, which are short, and then through the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from autopilot.workers import workers
from tests.simulation.drivers.campaign import prepare
from tests.simulation.drivers.kills import SEED
from tests.simulation.ground.scenario import LENGTH_S, draw_scenario
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.run import run

KEPT = Path(__file__).with_name("found.json")


@dataclass(frozen=True, slots=True)
class Place:
    """``story``: played on the market of that seed; empty: the seed's own scenario."""

    seed: int
    story: str = ""


@dataclass(frozen=True, slots=True)
class Catch:
    """``place`` None: found nowhere that was tried."""

    bug: str
    place: Place | None = None
    checkers: tuple[str, ...] = ()


def read_kept(path: Path = KEPT) -> dict[str, Place]:
    return {bug: Place(**place) for bug, place in json.loads(path.read_text()).items()}


def keep(catches: Iterable[Catch], path: Path = KEPT) -> None:
    places = {each.bug: each.place for each in catches if each.place is not None}
    known = read_kept(path) | places
    rows = (f'  "{bug}": {json.dumps({"seed": at.seed, "story": at.story})}' for bug, at in sorted(known.items()))
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def caught_at(bug: str, place: Place, length_s: float = LENGTH_S) -> tuple[str, ...]:
    """The checkers that fire there. ``length_s``: how long faults are injected in a seed's own scenario."""
    scenario = STORIES[place.story] if place.story else replace(draw_scenario(place.seed), length_s=length_s)
    return tuple(sorted(run(place.seed, scenario, bug=bug, stop_at_first=True).failed))


def caught(bug: str, kept: Place | None, first: int, most: int, length_s: float = LENGTH_S) -> Catch:
    places = [] if kept is None else [kept]
    places += [Place(market, story) for market, story in product((SEED, first), STORIES)]
    places += [Place(first + number) for number in range(most)]
    for place in places:
        found = caught_at(bug, place, length_s)
        if found:
            return Catch(bug, place, found)
    return Catch(bug)


def hunt(
    bugs: Iterable[str],
    kept: Mapping[str, Place],
    first: int,
    most: int,
    processes: int,
    length_s: float = LENGTH_S,
) -> Iterator[Catch]:
    with workers(processes, prepare) as pool:
        for future in [pool.submit(caught, bug, kept.get(bug), first, most, length_s) for bug in bugs]:
            yield future.result()
