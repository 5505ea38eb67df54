"""What a job finds in its work directory: from an address, or left by a job that has ended before it began."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

OF_A_JOB = "job:"
"""How such a place begins: ``job:prepare/out`` is what the job ``prepare`` left at ``out``."""


@dataclass(frozen=True, slots=True)
class LeftInput:
    """``path``: beneath the work directory of the job that takes it. ``left_at``: beneath that of the one before."""

    path: str
    job: str
    """Its id; in a job file that is not accepted yet, as the user wrote it."""
    left_at: str

    @property
    def place(self) -> str:
        return f"{OF_A_JOB}{self.job}/{self.left_at}"


def left_inputs(inputs: Iterable[tuple[str, str]], but: Collection[str] = ()) -> tuple[LeftInput, ...]:
    """Those of (path, place) that other jobs leave. ``but``: without what these jobs do."""
    found = (
        LeftInput(path, *place.removeprefix(OF_A_JOB).split("/", 1))
        for path, place in inputs
        if place.startswith(OF_A_JOB)
    )
    return tuple(each for each in found if each.job not in but)


def with_ids(inputs: Iterable[tuple[str, str]], ids: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """With other ids of the jobs that leave something. ``ids``: by the id or name in the place; others stay."""
    inputs = tuple(inputs)
    left = {each.path: replace(each, job=ids.get(each.job, each.job)).place for each in left_inputs(inputs)}
    return tuple((path, left.get(path, place)) for path, place in inputs)


def fetched_inputs(inputs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Those that come from an address, by path."""
    return {path: place for path, place in inputs if not place.startswith(OF_A_JOB)}


def may_hold(outputs: Iterable[str], wanted: str) -> bool:
    """Whether something at ``wanted`` can be among these paths and patterns: at one of them, in or above it."""
    steps = wanted.split("/")
    return any(_meets(pattern.strip("/").split("/"), steps) for pattern in outputs)


def _meets(pattern: list[str], steps: list[str]) -> bool:
    """By names alone."""
    for asked, step in zip((each for each in pattern if each not in ("", ".")), steps, strict=False):
        if asked == "**":
            return True
        if not fnmatchcase(step, asked):
            return False
    return True
