"""Steps and losses in what a program prints: by its job's pattern, as trainers do, or as a person does. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

from autopilot.agent.shipped.progress import Progress
from autopilot.agent.shipped.trainers import read_marks
from autopilot.rehearsal.observed import Said

_STEP = re.compile(r"\b(?:global[ _]?)?(?:step|iter(?:ation)?|it|batch|update)s?['\"]?\s*[:=#]?\s*\[?(\d{1,12})", re.I)
_EPOCH = re.compile(r"\bepoch['\"]?\s*[:=#]?\s*\[?(\d{1,9})(?![\d.])", re.IGNORECASE)
_LOSS = re.compile(r"\b(?:train[_ /])?loss['\"]?\s*[:=]?\s*['\"]?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan)", re.IGNORECASE)


def read_output(text: str, pattern: str = "") -> tuple[Said, ...]:
    """A loss belongs to the step of its line, or else to the one that was told last."""
    found: list[Said] = []
    progress = Progress("", pattern)
    step: int | None = None
    for line in re.split(r"[\r\n]", text):
        told = read_step(line, progress, pattern)
        loss = read_loss(line)
        step = told if told is not None else step
        if told is not None or (loss is not None and step is not None):
            found.append(Said(step, loss))
    return tuple(found)


def read_step(line: str, progress: Progress, pattern: str) -> int | None:
    if pattern:
        progress.said = (None, None)
        progress.feed(line.encode() + b"\n")
        return progress.said[0]
    marks = [mark for mark in read_marks(line) if mark.kind != "epoch"] or read_marks(line)
    if marks:
        return int(marks[-1].done)
    plain = _STEP.search(line) or _EPOCH.search(line)
    return int(plain[1]) if plain else None


def read_loss(line: str) -> float | None:
    found = _LOSS.search(line)
    return None if found is None or found[1].lower() == "nan" else float(found[1])


def list_keys(text: str) -> list[int]:
    """The first number of each line: in a table of steps, the step."""
    return [int(found[0]) for line in text.splitlines() if (found := re.search(r"\d+", line))]


def is_table(text: str) -> bool:
    """Whether its lines count steps: evenly, but for where they begin again."""
    keys = list_keys(text)
    apart = [after - before for before, after in pairwise(keys)]
    return len(keys) > 2 and (most := max(set(apart), key=apart.count)) > 0 and apart.count(most) >= 0.6 * len(apart)


def has_steps_twice(text: str) -> bool:
    keys = list_keys(text)
    return is_table(text) and len(keys) > len(set(keys))
