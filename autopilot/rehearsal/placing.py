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
    """What it told of its steps, by where: one of them is meant, of all runs."""
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
    of_jobs: dict[str, list[Said]] = {}
    apart: dict[str, list[float]] = {}
    for each in followed:
        said = scale.place(each.sources[source])
        before = of_jobs.setdefault(each.job, [])
        runs.append(replace(each.run, said=said, saved_step=step_at(before, each.newest_save)))
        before.extend(said)
        for name, begun in each.begun.items():
            steps = [count_before(said, at) for at in begun]
            gaps = [float(after - before) for before, after in pairwise(steps)]
            apart.setdefault(os.path.basename(name), []).extend(gaps)
    return PlacedRuns(scale, runs, measure_interval(apart))


def choose_source(followed: Sequence[FollowedRun]) -> int:
    """Of the first run that tells two steps, or else one: what is only printed at an end does not tell what is done."""
    for least in (2, 1):
        for each in followed:
            for source, claims in enumerate(each.sources):
                if len({(claim.step, claim.epoch) for claim in claims}) >= least:
                    return source
    return 0


def step_at(said: Sequence[Said], wall: float | None) -> int | None:
    """That the job had told last by then."""
    if wall is None or not said or wall < said[0].at:
        return None
    return max((each.at, each.step) for each in said if each.at <= wall)[1]


def count_before(said: Sequence[Said], wall: float) -> int:
    """The step that was told last by then; or the one before the first."""
    steps = [each.step for each in said if each.at <= wall]
    return steps[-1] if steps else (said[0].step - 1 if said else 0)


def measure_interval(apart: Mapping[str, list[float]]) -> float:
    """Steps between two saves of the file that is written most seldom: the program may resume from any of them. None is
    known of a file that was written but once in each run."""
    return max((median(gaps) for gaps in apart.values() if gaps), default=0.0)
