"""The runs of a rehearsal on one scale of steps. It is known once all have told what they do. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from autopilot.rehearsal.lines import PrintedStep, StepScale
from autopilot.rehearsal.observed import Said, SeenRun


class FollowedRun(NamedTuple):
    """One run as it was followed. All times are seconds of the wall clock."""

    run: SeenRun
    sources: tuple[list[PrintedStep], ...]
    """What it told of its steps, by where: the first that tells of two is meant, of all runs."""
    job: str = ""
    """Of whose runs one goes on from the other's checkpoint."""
    newest_save: float | None = None
    """Of what it began with, when that was written."""
    begun: Mapping[str, list[float]] = {}
    """When each file was begun to be written, by its path without digits."""


class PlacedRuns(NamedTuple):
    scale: StepScale
    runs: list[SeenRun]
    """With their steps, in the order in which they were followed."""
    interval_steps: float


def place(followed: Sequence[FollowedRun]) -> PlacedRuns:
    source = choose_source(followed)
    scale = StepScale.of_runs([each.sources[source] for each in followed])
    runs: list[SeenRun] = []
    told: dict[str, list[Said]] = {}
    apart: dict[str, list[float]] = {}
    for each in followed:
        said = scale.place(each.sources[source])
        before = told.setdefault(each.job, [])
        runs.append(replace(each.run, said=said, saved_step=step_at(before, each.newest_save)))
        before.extend(said)
        for name, begun in each.begun.items():
            steps = [count_before(said, at) for at in begun]
            gaps = [float(after - before) for before, after in pairwise(steps)]
            apart.setdefault(os.path.basename(name), []).extend(gaps)
    return PlacedRuns(scale, runs, measure_interval(apart))


def choose_source(followed: Sequence[FollowedRun]) -> int:
    count = max((len(each.sources) for each in followed), default=0)
    for least in (2, 1):
        for source in range(count):
            if any(len({claim[1:3] for claim in each.sources[source]}) >= least for each in followed):
                return source
    return 0


def step_at(told: Sequence[Said], wall: float | None) -> int | None:
    """That the job had told last by then."""
    if wall is None or not told or wall < told[0].at:
        return None
    return max((said.at, said.step) for said in told if said.at <= wall)[1]


def count_before(said: Sequence[Said], wall: float) -> int:
    """The step that was told last by then; or the one before the first."""
    steps = [each.step for each in said if each.at <= wall]
    return steps[-1] if steps else (said[0].step - 1 if said else 0)


def measure_interval(apart: Mapping[str, list[float]]) -> float:
    """Steps between two saves of the file that is written most seldom: the program may resume from any of them. None is
    known of a file that was written but once in each run."""
    return max((median(gaps) for gaps in apart.values() if gaps), default=0.0)
